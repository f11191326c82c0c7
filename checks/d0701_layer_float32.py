"""In float32 every part of a layer gives what the reference gives.

Why: this is where a wrong formula shows: another epsilon, gate and up exchanged, a forgotten bias, a wrong rotation. Right code differs
by the order of sums only, a few millionths; wrong code by thousandths at the least.

Remedy: the part that is named first is the one to read; its operators were judged one rung below.

Example: layer 3 mixer: relative error 0.02: the scale of the scores is 1/sqrt(192), not 1/sqrt(128).
"""

from collections.abc import Iterator

from day0.spec.check import check
from day0.spec.evidence import LayerEvidence
from day0.spec.finding import Finding

LIMIT, ROW = 2e-5, 1e-4  # root mean square, relative to that of the truth: of the tensor, of the worst row


def run(evidence: LayerEvidence) -> Iterator[Finding]:
    x = evidence.errors
    if evidence.dtype == "float32" and x.finite and not (x.ours <= LIMIT and x.row_ratio * x.budget <= ROW):
        found = f"relative error {x.ours:.2g}, worst row {x.row}: {x.row_ratio * x.budget:.2g} ({evidence.phase})"
        yield Finding(code="D0701", status="fail", subject=evidence.subject, expected=f"at most {LIMIT:g}, row {ROW:g}", found=found)


CHECK = check(__name__, __doc__, run, "layer")
