"""Cosines and sines of all positions up to the end of the context are those of the reference.

Why: a layer receives them ready-made, so its own error cannot show a wrong frequency; and stretched contexts show beyond a length that no
test prompt reaches.

Remedy: compare theta, the rule of stretching and its factors, and the factor on cosine and sine with the release's configuration.

Example: rotary table: differs by 0.03 at position 40960: the long factor of yarn is not applied.
"""

from collections.abc import Iterator

from day0.spec.check import check
from day0.spec.evidence import RotaryEvidence
from day0.spec.finding import Finding

ONCE, EACH = 1e-6, 2.0**-22  # absolute; and for each position, because its angle and its frequency are rounded to float32 on both sides


def run(evidence: RotaryEvidence) -> Iterator[Finding]:
    limit = ONCE + EACH * evidence.position
    if not evidence.deviation <= limit:
        found = f"differs by {evidence.deviation:.2g} at position {evidence.position}"
        expected = f"within {limit:.2g}, up to position {evidence.tokens - 1}"
        yield Finding(code="D0707", status="fail", subject=evidence.subject, expected=expected, found=found)


CHECK = check(__name__, __doc__, run, "rotary")
