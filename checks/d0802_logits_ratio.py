"""In the model's own type the logits are as near to the truth as the reference's, with its choice of experts.

Why: with the choice forced errors of layers add up in quadrature; a run that chooses freely is reported, but says more about the model
than about who computes it.

Remedy: look for the layer where the ratio starts to rise.

Example: logits: 5 times the reference's error of 0.01.
"""

from collections.abc import Iterator

from day0.spec.check import check
from day0.spec.finding import Finding
from day0.spec.whole_evidence import ModelEvidence

LIMIT, NULL = 2.0, 1.3  # to the reference's error; to what a harmless change of the reference gives


def run(evidence: ModelEvidence) -> Iterator[Finding]:
    x = evidence.errors
    limit = max(LIMIT, NULL * x.null)
    if evidence.dtype != "float32" and evidence.forced and not (x.finite and x.ratio <= limit):
        found = f"{x.ratio:.3g} times the reference's error of {x.reference:.2g}" if x.finite else "infinity or NaN"
        yield Finding(code="D0802", status="fail", subject=evidence.subject, expected=f"at most {limit:.3g} (null {x.null:.3g})", found=found)


CHECK = check(__name__, __doc__, run, "logits")
