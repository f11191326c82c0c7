"""Every tensor is in a format that day0 reads.

Why: packed numbers look like bytes or integers; read as plain ones they are nonsense, and left out they are a hole in the model.

Remedy: add a file to day0/formats/, or take a release of the model in another format.

Example: model.layers.*.mlp.up_proj.qweight: 28 tensors of I32, 1207959552 bytes, that no format reads.
"""

from collections.abc import Iterator

from day0.checkpoint.folder import Checkpoint
from day0.checkpoint.ledger import Ledger
from day0.spec.check import check
from day0.spec.finding import Finding
from day0.spec.registry import formats


def run(checkpoint: Checkpoint) -> Iterator[Finding]:
    """Tensors that no format took, alike ones together. Whether the model needs them is another question (D0302)."""
    if checkpoint.all_read:
        return
    ledger = Ledger()
    parts = {part.name for stored in checkpoint.stored.values() for part in stored.parts.values()}
    for kind, members in checkpoint.kinds.items():
        names = [name for name in members if name not in parts]
        if not names:
            continue
        subject = names[0] if len(names) == 1 else kind
        dtypes = sorted({checkpoint.headers[name].dtype for name in names})
        size = sum(checkpoint.headers[name].bytes for name in names)
        found = f"{len(names)} tensors of {', '.join(dtypes)}, {size} bytes, that no format reads"
        ledger.add("unknown", "D0209", subject, expected=f"one of {', '.join(formats().names())}", found=found)
    yield from ledger.findings()


CHECK = check(__name__, __doc__, run)
