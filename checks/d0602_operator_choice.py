"""Every implementation that chooses makes the choices of its reference on the same scores.

Why: a top-k that breaks a rule (groups, bias, order of ties) sends tokens to other experts; no tolerance can tell that from rounding.

Remedy: `DAY0_OPS=reference day0 map-ops` maps the references instead; report the implementation.

Example: route: 0.40% of the choices differ, first in row 12: ties go to the higher index.
"""

from collections.abc import Iterator

from day0.spec.check import check
from day0.spec.evidence import OperatorEvidence
from day0.spec.finding import Finding


def run(evidence: OperatorEvidence) -> Iterator[Finding]:
    if evidence.exact and evidence.errors.ours:
        found = f"{evidence.errors.ours:.2%} of the choices differ, first in row {evidence.errors.row}"
        yield Finding(code="D0602", status="fail", subject=evidence.call, expected="equal choices", found=found)


CHECK = check(__name__, __doc__, run, "operator")
