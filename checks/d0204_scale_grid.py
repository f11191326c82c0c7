"""Every block-scaled fp8 weight has its scales, in a grid of the right shape.

Why: an fp8 weight without its scale loads, runs, and answers nonsense or NaN.

Remedy: download the shard again, or quantise with the companion tensors kept.
"""

from collections.abc import Iterator

from day0.checkpoint.folder import Checkpoint
from day0.checkpoint.ledger import Ledger
from day0.formats.fp8_block import block_size, codes, configured, grid, scale_of
from day0.spec.check import check
from day0.spec.finding import Finding
from day0.spec.format import TensorHeader

HINT = "download the shard again, or quantise with the companion tensors kept"
USUAL = (128, 128)  # block of nearly every release


def run(checkpoint: Checkpoint) -> Iterator[Finding]:
    """Weights that no format took: without companion, or with one that does not fit."""
    left = {name: weight for name, weight in codes(checkpoint.headers) if name not in checkpoint.stored}
    ledger = Ledger()
    if left:
        taken = [stored for stored in checkpoint.stored.values() if stored.format == "fp8_block"]
        pairs = ((stored.parts["data"].shape, stored.parts["scale"].shape) for stored in taken)
        block = block_size(pairs, {}) or configured(checkpoint.quantization) or USUAL
        for weight in left.values():
            _tell(weight, block, checkpoint, ledger)
    yield from ledger.findings()


def _tell(weight: TensorHeader, block: tuple[int, int], checkpoint: Checkpoint, ledger: Ledger) -> None:
    shape = list(grid(weight.shape, block))
    scale = scale_of(weight, checkpoint.headers)
    if scale is not None:
        ledger.fail("D0204", weight.name, expected=f"{scale.name} {shape}", found=f"{scale.name} {list(scale.shape)}", hint=HINT)
    elif f"{weight.name}_scale" not in checkpoint.headers:  # one scale a tensor or a row: another format, or D0209
        expected = f"{weight.name}_scale_inv {shape}"
        ledger.fail("D0204", weight.name, expected=expected, found=f"fp8 {list(weight.shape)} without scales", hint=HINT)


CHECK = check(__name__, __doc__, run)
