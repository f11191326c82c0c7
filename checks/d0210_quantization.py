"""The quantisation that the configuration states is the one of the tensors.

Why: a tool that believes the configuration decodes with the wrong block, or not at all; day0 believes the tensors.

Remedy: mend quantization_config, or fetch configuration and weights of one revision.

Example: quantization_config.weight_block_size: [128, 128], but the scales have blocks of [64, 128].
"""

from collections.abc import Iterator

from day0.checkpoint.banks import alike
from day0.checkpoint.folder import Checkpoint
from day0.formats.fp8_block import configured
from day0.spec.check import check
from day0.spec.finding import Finding
from day0.spec.registry import formats

HINT = "day0 goes by the tensors"


def run(checkpoint: Checkpoint) -> Iterator[Finding]:
    """Packed without being stated, stated without being packed, or another block."""
    kinds = {stored.format for _, stored, _ in alike(checkpoint.stored)}
    packed = sorted(kind for kind in kinds if formats().get(kind).packed)
    stated = checkpoint.quantization
    if packed and not stated:
        yield _contradiction(f"none, but weights are {', '.join(packed)}", "quantization_config")
    plain = kinds == {"plain"} and checkpoint.all_read
    if stated and plain:
        yield _contradiction(f"{stated.get('quant_method', 'some')}, but all weights are plain", "quantization_config")
    blocks = {stored.block for _, stored, _ in alike(checkpoint.stored) if stored.format == "fp8_block"}
    block = configured(stated)
    if block is not None and blocks and blocks != {block}:
        found = f"{list(block)}, but the scales have blocks of {', '.join(str(list(b)) for b in sorted(blocks))}"
        yield _contradiction(found, "quantization_config.weight_block_size")


def _contradiction(found: str, key: str) -> Finding:
    return Finding(code="D0210", status="warn", subject=key, expected="what the tensors show", found=found, hint=HINT)


CHECK = check(__name__, __doc__, run)
