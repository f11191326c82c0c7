"""A matrix is about as large as the same matrix of other layers and experts.

Why: values that are twenty times too large or too small are how a lost scale looks when nothing else shows it.

Remedy: look at the scale of the tensor; some models do have such layers, so this is a warning.

Example: model.layers.7.mlp.experts.3.up_proj.weight: 4.1, expected root mean square near 0.0204; its scale was applied twice.
"""

from collections.abc import Iterator

from day0.spec.check import check
from day0.spec.evidence import WeightEvidence
from day0.spec.finding import Finding

LIMIT = 16.0  # to the median of the same kind
MATRICES = frozenset({"linear", "expert", "conv"})


def run(evidence: WeightEvidence) -> Iterator[Finding]:
    ratio = evidence.rms / evidence.usual if evidence.usual else 1.0
    if evidence.role in MATRICES and evidence.rms and not 1 / LIMIT < ratio < LIMIT:
        expected, found = f"root mean square near {evidence.usual:.3g}", f"{evidence.rms:.3g}"
        yield Finding(code="D0504", status="warn", subject=evidence.name, expected=expected, found=found, hint="look at its scale")


CHECK = check(__name__, __doc__, run, "weight")
