"""In the model's own type a layer is as near to the truth as the reference in that type.

Why: an absolute tolerance that passes a healthy 16-bit layer passes many broken ones. The error is therefore measured in units of the
reference's own error, on the same inputs and with the same experts; one expert that is wrong shows in the worst row. What the same reference gives
when its sums are added up in another order is the null: a limit is never nearer to it than by a third.

Remedy: if float32 passes, look for a place that rounds more often than the reference (accumulators, router, norms).

Example: layer 3 ffn: 8 times the reference's error of 0.003: experts are summed in bfloat16.
"""

from collections.abc import Iterator

from day0.spec.check import check
from day0.spec.evidence import LayerEvidence
from day0.spec.finding import Finding

LIMIT, ROW = 1.5, 4.0  # to the larger of the reference's error and the budget: of the tensor, of the worst row
NULL = 1.3  # to what a harmless change of the reference gives
UNEVEN = 1.5  # to the reference's own worst row, where a model's rows are ill-conditioned by nature


def run(evidence: LayerEvidence) -> Iterator[Finding]:
    x = evidence.errors
    limit, row = max(LIMIT, NULL * x.null), max(ROW, UNEVEN * x.reference_row, NULL * x.null_row)
    if evidence.dtype != "float32" and x.finite and not (x.ratio <= limit and x.row_ratio <= row):
        expected = f"at most {limit:.3g}, row {row:.3g} (null {x.null:.3g})"
        found = f"{x.ratio:.3g} times the reference's error of {x.reference:.2g}, worst row {x.row}: {x.row_ratio:.3g} ({evidence.phase})"
        yield Finding(code="D0702", status="fail", subject=evidence.subject, expected=expected, found=found)


CHECK = check(__name__, __doc__, run, "layer")
