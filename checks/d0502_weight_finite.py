"""No weight is infinite or not a number.

Why: one NaN in a weight makes every token NaN that meets it; in an expert it shows only when a prompt is routed there.

Remedy: download the shard again; if it is the same, the release is broken or its format was mistaken.

Example: model.layers.7.mlp.down_proj.weight: infinity or NaN; one scale is 0xFF.
"""

from collections.abc import Iterator

from day0.spec.check import check
from day0.spec.evidence import WeightEvidence
from day0.spec.finding import Finding


def run(evidence: WeightEvidence) -> Iterator[Finding]:
    if not evidence.finite:
        hint = "download the shard again"
        yield Finding(code="D0502", status="fail", subject=evidence.name, expected="finite values", found="infinity or NaN", hint=hint)


CHECK = check(__name__, __doc__, run, "weight")
