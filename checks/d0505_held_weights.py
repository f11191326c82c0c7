"""What the engine holds of a weight is what the release stores.

Why: tensors are cut, turned, stacked and joined while they are read; an expert that lost some columns, or lies in another's place, is a
fault that no comparison of stored tensors can see, and that averages over tokens hide.

Remedy: look at the expert, the rows and the columns that are named, and at how the family's file cuts the tensor.

Example: layer 3 ffn.experts.gate: differs by 0.8 of the largest value at expert 5, columns 248–255: a shard was cut one column block early.
"""

from collections.abc import Iterator

from day0.spec.check import check
from day0.spec.evidence import HeldEvidence
from day0.spec.finding import Finding

LIMIT = 2.0**-22  # relative to the largest magnitude


def run(evidence: HeldEvidence) -> Iterator[Finding]:
    if not evidence.deviation <= LIMIT:
        places = [f"expert {evidence.expert}"] if evidence.expert is not None else []
        places += [f"{axis} {span[0]}–{span[1]}" for axis, span in (("rows", evidence.rows), ("columns", evidence.columns)) if span]
        found = f"differs by {evidence.deviation:.2g} of the largest value" + (f" at {', '.join(places)}" if places else "")
        subject = evidence.name if evidence.layer is None else f"layer {evidence.layer} {evidence.name}"
        hint = "it equals what is stored after a transpose" if evidence.pattern == "transposed" else ""
        yield Finding(code="D0505", status="fail", subject=subject, expected="the values that are stored", found=found, hint=hint)


CHECK = check(__name__, __doc__, run, "held")
