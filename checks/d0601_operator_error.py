"""Every implementation that the map chose is as near to its operator's reference as rounding allows.

Why: an accumulator in 16 bits, a tile that is masked wrongly or an approximate exponential costs accuracy in every layer at once. The
truth is the reference in float64 on the inputs that the layer really gives; the budget comes from the number of roundings; the null is
what the same reference gives in the type of the call, and a limit is never nearer to it than by a third.

Remedy: `DAY0_OPS=reference day0 map-ops` maps the references instead; if the model is right then, report the implementation.

Example: rms_norm by torch: 37 times the budget of 0.0039: it computes the mean in bfloat16.
"""

from collections.abc import Iterator

from day0.spec.check import check
from day0.spec.evidence import OperatorEvidence
from day0.spec.finding import Finding

LIMITS = {"float32": (4.0, 16.0), "float64": (4.0, 16.0), "bfloat16": (1.5, 4.0), "float16": (1.5, 4.0)}  # whole tensor, worst row
NULL = 1.3  # to what the reference gives in the type of the call
SURE = 3.0  # standard errors of a root mean square over few elements that chance is granted
HINT = "DAY0_OPS=reference maps the references instead"


def run(evidence: OperatorEvidence) -> Iterator[Finding]:
    if evidence.exact:
        return
    x = evidence.errors
    limit, row = LIMITS[evidence.dtype]
    limit *= 1 + SURE / max(x.elements, 1) ** 0.5  # elements of a row share roundings: half of them are independent
    limit, row = max(limit, NULL * x.null), max(row, NULL * x.null_row)
    if not (x.finite and x.ratio <= limit and x.row_ratio <= row):
        found = f"{x.ratio:.3g} times the budget of {x.budget:.2g}, worst row {x.row}: {x.row_ratio:.3g}" if x.finite else "infinity or NaN"
        expected = f"at most {limit:.3g}, row {row:.3g} (null {x.null:.3g})"
        yield Finding(code="D0601", status="fail", subject=evidence.call, expected=expected, found=found, hint=HINT)


CHECK = check(__name__, __doc__, run, "operator")
