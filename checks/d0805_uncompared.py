"""Everything that was asked for is compared.

Why: a verdict says nothing about what nobody looked at: a model without a reference, a rotation without a table, an operator that the
prompt is too short to reach. Each is named, so that a pass is not taken for more than it is.

Remedy: what can be done is said with each; without a reference, compare with another implementation by hand.

Example: vision tower: not compared: it is not run.
"""

from collections.abc import Iterator

from day0.spec.check import check
from day0.spec.evidence import Uncompared
from day0.spec.finding import Finding


def run(evidence: Uncompared) -> Iterator[Finding]:
    yield Finding(code="D0805", status="unknown", subject=evidence.subject, found=f"{evidence.what}: {evidence.why}")


CHECK = check(__name__, __doc__, run, "uncompared")
