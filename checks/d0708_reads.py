"""In float32 sparse attention reads what the reference reads.

Why: an indexer that scores wrongly still picks tokens, and attention over the wrong tokens is fluent. What is compared above is attention
with the reference's choice, so that the choice is judged here. Scores that are equal but for rounding may be ranked either way.

Remedy: compare the indexer's norm, rotation, weights of heads and the number it picks with the release's configuration.

Example: layer 2 mixer: 14 of 64 choices are others, 9 of 32 tokens: keys are not turned before they are scored.
"""

from collections.abc import Iterator

from day0.spec.check import check
from day0.spec.evidence import ReadsEvidence
from day0.spec.finding import Finding

LIMIT = 0.002  # share of the choices, and one choice besides


def run(evidence: ReadsEvidence) -> Iterator[Finding]:
    if evidence.dtype == "float32" and evidence.lacking > 1 + LIMIT * evidence.chosen:
        found = f"{evidence.lacking} of {evidence.chosen} choices are others, {evidence.affected} of {evidence.tokens} tokens"
        yield Finding(code="D0708", status="fail", subject=evidence.subject, expected="the choices of the reference", found=found)


CHECK = check(__name__, __doc__, run, "reads")
