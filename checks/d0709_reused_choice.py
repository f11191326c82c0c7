"""A layer that reuses what another layer chose to read takes it from the layer that the release says.

Why: the choice is handed over ready-made, so that the layer itself looks right whichever one it gets.

Remedy: compare the pattern of layers that choose and layers that reuse with the release's configuration.

Example: layer 3 reads: that of layer 0 lacks 210 of 640: the layer before was meant.
"""

from collections.abc import Iterator

from day0.spec.check import check
from day0.spec.evidence import ReusedEvidence
from day0.spec.finding import Finding

LIMIT = 0.002  # share of the choices, and one choice besides


def run(evidence: ReusedEvidence) -> Iterator[Finding]:
    if evidence.dtype == "float32" and evidence.lacking > 1 + LIMIT * evidence.chosen:
        found = f"that of layer {evidence.source} lacks {evidence.lacking} of {evidence.chosen}"
        yield Finding(code="D0709", status="fail", subject=evidence.subject, expected="the choice that the reference hands on", found=found)


CHECK = check(__name__, __doc__, run, "reused")
