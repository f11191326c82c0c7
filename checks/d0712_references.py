"""Our own definition of a layer and the reference agree.

Why: a reference may be wrong itself: released code and classes of transformers have been, for weeks. What runs here is compared with the
reference; where our own definition of the layer (its operators' references, no kernel) gives something else than the reference, one of both
is wrong, and no agreement with either says that the model is right.

Remedy: read the part that is named in the paper or in the vendor's own code: the reference is right where our family file or block is
wrong; where the reference is wrong, update it, and do not bend ours until it agrees.

Example: layer 1 reads: both references differ in 0.31 of 312 choices; what runs here agrees with our definition (0) and not with the
reference (0.31).
"""

from collections.abc import Iterator

from day0.spec.check import check
from day0.spec.evidence import ReferencesEvidence
from day0.spec.finding import Finding

LIMIT = 2e-5  # relative error that the order of sums explains in float32
SHARE = 0.002  # of the choices, and one choice besides: scores that are equal but for rounding


def run(evidence: ReferencesEvidence) -> Iterator[Finding]:
    limit = SHARE + 1 / evidence.choices if evidence.choices else LIMIT
    if not evidence.apart <= limit:
        near = {"the reference": evidence.to_reference, "our definition": evidence.to_own}
        agreed = [name for name, distance in near.items() if distance <= limit]
        told = ", ".join(f"{distance:.2g} from {name}" for name, distance in near.items())
        what = f" of {evidence.choices} choices" if evidence.choices else ""
        found = f"both references are {evidence.apart:.2g}{what} apart; what runs here agrees with {' and '.join(agreed) or 'neither'} ({told})"
        yield Finding(code="D0712", status="fail", subject=evidence.subject, expected=f"two references within {limit:.2g}", found=found)


CHECK = check(__name__, __doc__, run, "references")
