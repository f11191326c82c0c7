"""Every token has the position that it has in its sequence, in whatever steps the sequence is read.

Why: a layer receives positions ready-made. One that is off after the first chunk turns queries and keys by the wrong angle, and answers
stay fluent.

Remedy: look at how positions go on after the step that holds the first token named.

Example: layer 0 positions: 37 of 65 tokens elsewhere, first token 28 at 29: the second chunk begins one too far.
"""

from collections.abc import Iterator

from day0.spec.check import check
from day0.spec.evidence import PositionsEvidence
from day0.spec.finding import Finding


def run(evidence: PositionsEvidence) -> Iterator[Finding]:
    if evidence.wrong:
        found = f"{evidence.wrong} of {evidence.tokens} tokens elsewhere, first token {evidence.first} at {evidence.found}"
        yield Finding(code="D0711", status="fail", subject=evidence.subject, expected=f"position {evidence.first}", found=found)


CHECK = check(__name__, __doc__, run, "positions")
