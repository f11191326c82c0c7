"""A family reads the configuration.

Why: without it nobody knows what the tensors mean; only sizes and the soundness of the copy can be told.

Remedy: add a file to day0/families/, starting from the family whose tensor names are closest.
"""

import re
from collections.abc import Iterator

from day0.checkpoint.folder import Checkpoint
from day0.engine.release import recognise
from day0.spec.check import check
from day0.spec.errors import Day0Error
from day0.spec.finding import Finding
from day0.spec.registry import families

LAYER = re.compile(r"^.*?\b(?:model\.)?layers\.")


def run(checkpoint: Checkpoint) -> Iterator[Finding]:
    """The first reason why the configuration cannot be understood."""
    kind = str(checkpoint.config.data.get("model_type"))[:80]
    try:
        _, family = recognise(checkpoint.config)
    except Day0Error:
        known = ", ".join(sorted(name for _, family in families().items() for name in family.recognises))
        yield _unread(kind, f"one of {known}", "no family reads it", closest(checkpoint))
        return
    try:
        family.read(checkpoint.config)
    except Day0Error as error:
        yield _unread(kind, "a configuration that its family reads", error.problem, error.hint or "see the model's own configuration class")


def _unread(kind: str, expected: str, found: str, hint: str) -> Finding:
    return Finding(code="D0301", status="fail", subject=f"model_type {kind}", expected=expected, found=found, hint=hint)


def closest(checkpoint: Checkpoint) -> str:
    """The family that claims most kinds of tensor names."""
    kinds = {LAYER.sub("model.layers.", kind).replace("*", "0") for kind in checkpoint.kinds}
    claimed = {name: len(kinds) - len(family.names.resolve(iter(kinds))[1]) for name, family in families().items()}
    best = max(claimed, key=lambda name: claimed[name])
    if not claimed[best]:
        return "no known family has such tensor names"
    return f"closest known family by tensor names: {best} ({claimed[best]} of {len(kinds)} kinds of names)"


CHECK = check(__name__, __doc__, run)
