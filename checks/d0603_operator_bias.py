"""Implementations round to nearest.

Why: truncation instead of rounding stays below every limit of size in one call, and pulls all activations towards zero over many layers.

Remedy: look at the conversion to the type of the result.

Example: linear: mean error of +0.31 ± 0.02 unit roundoffs: it truncates.
"""

from collections.abc import Iterator

from day0.spec.check import check
from day0.spec.evidence import OperatorEvidence
from day0.spec.finding import Finding

LIMIT = 0.25  # unit roundoffs; truncation gives -0.7
SURE = 4.0  # standard errors that chance is granted


def run(evidence: OperatorEvidence) -> Iterator[Finding]:
    x = evidence.errors
    if not evidence.exact and (evidence.result or evidence.dtype) in ("bfloat16", "float16") and abs(x.bias) > LIMIT + SURE * x.bias_error:
        expected, found = f"within {LIMIT:g}", f"mean error of {x.bias:+.2f} ± {x.bias_error:.2f} unit roundoffs"
        yield Finding(code="D0603", status="fail", subject=evidence.call, expected=expected, found=found, hint="does it truncate?")


CHECK = check(__name__, __doc__, run, "operator")
