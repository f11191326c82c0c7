"""Every weight has the same values whether our format decodes it or an independent path does.

Why: a scale applied along the wrong axis, nibbles in the wrong order or fp8 bytes read as integers give a model that runs and answers
nonsense. Both ways round a product once, so they agree to the last bit; two scales on top of each other may differ by two units in it.

Remedy: look at the place that is named; a constant factor points at a scale, a pattern at the order of elements.

Example: model.layers.0.mlp.experts.0.up_proj.weight: differs by 0.5 of the largest value at [3, 17]: nibbles are swapped.
"""

from collections.abc import Iterator

from day0.spec.check import check
from day0.spec.evidence import WeightEvidence
from day0.spec.finding import Finding

LIMIT = 2.0**-22  # relative to the largest magnitude
HINT = "compare our format's decode with the format's definition"


def run(evidence: WeightEvidence) -> Iterator[Finding]:
    if not evidence.path:
        yield Finding(code="D0501", status="unknown", subject=evidence.name, found=f"no independent way to decode {evidence.format}")
    elif not evidence.deviation <= LIMIT:
        found = f"differs by {evidence.deviation:.2g} of the largest value at {evidence.where}"
        yield Finding(code="D0501", status="fail", subject=evidence.name, expected=f"as by {evidence.path}", found=found, hint=HINT)


CHECK = check(__name__, __doc__, run, "weight")
