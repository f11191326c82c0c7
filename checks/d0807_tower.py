"""What the tower makes of an image is as near to the truth as rounding, and the reference in the model's own type, are.

Why: a tower that is wrong leaves every text right: patches in another order or positions one off give answers about another image, which
nothing but a comparison shows. The image is drawn, and read by the release's own preprocessor.

Remedy: the part of the tower that is wrong first is named; look at it before anything in the language model.

Example: tower layer 1 mixer: relative error 0.3.
"""

from collections.abc import Iterator

from day0.spec.check import check
from day0.spec.finding import Finding
from day0.spec.whole_evidence import TowerEvidence

FLOAT32, LIMIT = 2e-4, 2.0  # relative error; to the larger of the reference's error and the budget


def run(evidence: TowerEvidence) -> Iterator[Finding]:
    x, exact = evidence.errors, evidence.dtype == "float32"
    if not (x.finite and (x.ours <= FLOAT32 if exact else x.ratio <= LIMIT)):
        error = f"relative error {x.ours:.2g}" if exact else f"{x.ratio:.3g} times the reference's error of {x.reference:.2g}"
        expected = f"at most {FLOAT32 if exact else LIMIT:g}"
        found = error if x.finite else "infinity or NaN"
        yield Finding(code="D0807", status="fail", subject=evidence.subject, expected=expected, found=found)


CHECK = check(__name__, __doc__, run, "tower")
