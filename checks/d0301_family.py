"""A family reads the configuration.

Why: without it nobody knows what the tensors mean; only sizes and the soundness of the copy can be told.

Remedy: `day0 new family NAME --from MODEL` drafts a file in day0/families/ from the family that is closest.

Example: model_type brandnew_v9: no family reads it.
"""

from collections.abc import Iterator

from day0.checkpoint.folder import Checkpoint
from day0.engine.release import recognise
from day0.spec.check import check
from day0.spec.errors import Day0Error
from day0.spec.finding import Finding
from day0.spec.registry import families


def run(checkpoint: Checkpoint) -> Iterator[Finding]:
    """The first reason why the configuration cannot be understood."""
    kind = str(checkpoint.config.data.get("model_type"))[:80]
    try:
        _, family = recognise(checkpoint.config, checkpoint)
    except Day0Error as error:
        known = ", ".join(sorted(name for _, family in families().items() for name in family.recognises))
        yield _unread(kind, f"one of {known}", error.problem, error.hint or "")
        return
    try:
        family.read(checkpoint.config)
    except Day0Error as error:
        yield _unread(kind, "a configuration that its family reads", error.problem, error.hint or "see the model's own configuration class")


def _unread(kind: str, expected: str, found: str, hint: str) -> Finding:
    return Finding(code="D0301", status="fail", subject=f"model_type {kind}", expected=expected, found=found, hint=hint)


CHECK = check(__name__, __doc__, run)
