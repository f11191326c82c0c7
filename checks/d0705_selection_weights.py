"""Experts that are chosen rightly are weighed as the reference weighs them.

Why: equal experts with other weights is a fault of its own: weights taken from biased scores, renormalised or scaled once too often.

Remedy: compare renormalisation, its epsilon and the scaling factor with the release's configuration.

Example: layer 3 ffn: off by 0.6 of the largest: weights are not normalised before they are scaled.
"""

from collections.abc import Iterator

from day0.spec.check import check
from day0.spec.evidence import SelectionEvidence
from day0.spec.finding import Finding

LIMITS = {"float32": 1e-5, "float64": 1e-5, "bfloat16": 2.0**-7, "float16": 2.0**-10}  # a model may round its weights to its type


def run(evidence: SelectionEvidence) -> Iterator[Finding]:
    limit = LIMITS[evidence.dtype]
    if not evidence.weights <= limit:
        found = f"off by {evidence.weights:.2g} of the largest ({evidence.phase}, {evidence.dtype})"
        yield Finding(code="D0705", status="fail", subject=evidence.subject, expected=f"weights of the rule, within {limit:g}", found=found)


CHECK = check(__name__, __doc__, run, "selection")
