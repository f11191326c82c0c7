"""No matrix is zero throughout.

Why: a shard that was allocated and never filled, or a tensor that a conversion forgot, is all zeros; the layer then adds nothing and the
model still talks. Biases and norms may be zero.

Remedy: download the shard again.

Example: model.layers.7.mlp.down_proj.weight: zero throughout; this part of the file was never written.
"""

from collections.abc import Iterator

from day0.spec.check import check
from day0.spec.evidence import WeightEvidence
from day0.spec.finding import Finding

MATRICES = frozenset({"linear", "expert", "embed", "head", "router", "conv"})


def run(evidence: WeightEvidence) -> Iterator[Finding]:
    if evidence.peak == 0 and evidence.role in MATRICES and not evidence.name.endswith("bias"):
        hint = "download the shard again"
        yield Finding(code="D0503", status="fail", subject=evidence.name, expected="values", found="zero throughout", hint=hint)


CHECK = check(__name__, __doc__, run, "weight")
