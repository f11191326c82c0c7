"""A layer gives infinity or NaN only where the reference does.

Why: an overflow in float16, a softmax over nothing or a page that was never written shows here first.

Remedy: look at the first row that is named, and at what its neighbours do not have in common with it.

Example: layer 60 ffn: infinity or NaN (prefill, float16).
"""

from collections.abc import Iterator

from day0.spec.check import check
from day0.spec.evidence import LayerEvidence
from day0.spec.finding import Finding


def run(evidence: LayerEvidence) -> Iterator[Finding]:
    if not evidence.errors.finite:
        found = f"infinity or NaN ({evidence.phase}, {evidence.dtype})"
        yield Finding(code="D0703", status="fail", subject=evidence.subject, expected="finite where the reference is", found=found)


CHECK = check(__name__, __doc__, run, "layer")
