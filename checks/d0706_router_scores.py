"""The scores of a router are as near to the truth as the reference's.

Why: scores decide; a router that computes in 16 bits where the release uses 32 flips experts that were not close.

Remedy: compare the type in which the router's matrix product is computed.

Example: layer 3 ffn: 40 times an error of 0.003: the router is computed in bfloat16.
"""

from collections.abc import Iterator

from day0.spec.check import check
from day0.spec.evidence import SelectionEvidence
from day0.spec.finding import Finding

LIMIT, ROW = 1.5, 4.0  # to the reference's error
UNEVEN = 1.5  # to the reference's own worst row
FLOAT32 = 2e-5  # relative error in float32


def run(evidence: SelectionEvidence) -> Iterator[Finding]:
    x = evidence.scores
    limit, row = (LIMIT, ROW) if evidence.dtype != "float32" else (FLOAT32 / x.budget, 5 * FLOAT32 / x.budget)
    row = max(row, UNEVEN * x.reference_row)
    if not (x.ratio <= limit and x.row_ratio <= row):
        usual = max(x.reference, x.budget)
        found = f"{x.ratio:.3g} times an error of {usual:.2g}, worst row {x.row_ratio:.3g} ({evidence.phase}, {evidence.dtype})"
        yield Finding(code="D0706", status="fail", subject=evidence.subject, expected=f"at most {limit:.3g}, row {row:.3g}", found=found)


CHECK = check(__name__, __doc__, run, "selection")
