"""The experts of every token are those that the reference's rule picks from our own scores.

Why: a wrong rule (bias dropped, groups ignored, another k) looks like rounding in every average, because healthy models flip experts too.
On our own scores there is nothing to average: the choice is right or wrong. Experts of equal rank may stand for each other.

Remedy: compare score function, correction bias, groups and k with the release's configuration.

Example: layer 3 ffn: 12% have others, first token 4: groups are scored by their best expert, not by their two best.
"""

from collections.abc import Iterator

from day0.spec.check import check
from day0.spec.evidence import SelectionEvidence
from day0.spec.finding import Finding


def run(evidence: SelectionEvidence) -> Iterator[Finding]:
    if evidence.wrong:
        share = f"{evidence.wrong} of {evidence.tokens} tokens"
        found = f"{share} have others, first token {evidence.first} ({evidence.phase}, {evidence.dtype})"
        expected = "the experts of the reference's rule"
        yield Finding(code="D0704", status="fail", subject=evidence.subject, expected=expected, found=found)


CHECK = check(__name__, __doc__, run, "selection")
