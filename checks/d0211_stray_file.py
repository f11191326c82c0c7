"""No second copy of the weights lies beside the first.

Why: a loader that takes every file it finds merges two models, or counts memory twice.

Remedy: move the file out of the folder; day0 ignores it.

Example: consolidated.safetensors: ignored: 14483464192 bytes, 291 tensors, 0 of them by names of the model.
"""

from collections.abc import Iterator

from day0.checkpoint.folder import Checkpoint
from day0.checkpoint.headers import read_shard
from day0.spec.check import check
from day0.spec.finding import Finding


def run(checkpoint: Checkpoint) -> Iterator[Finding]:
    """Weight files that are no part of the model; a warning when they hold tensors of its names."""
    for name in checkpoint.source.names():
        if name in checkpoint.shards or not name.endswith(".safetensors"):
            continue
        stray = read_shard(checkpoint.source, name)
        twice = sum(tensor in checkpoint.headers for tensor in stray.tensors)
        yield Finding(
            code="D0211",
            status="warn" if twice or not stray.readable else "pass",
            subject=name,
            expected="files of the model alone",
            found=f"ignored: {stray.size} bytes, {len(stray.tensors)} tensors, {twice} of them by names of the model",
            hint="move it out of the folder: other tools may load it" if twice else "",
        )


CHECK = check(__name__, __doc__, run)
