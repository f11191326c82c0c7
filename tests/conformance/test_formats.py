"""What the registry says of formats, and numbers at their edges; ordinary ones are tested with the checkpoints that hold them."""

import pytest
import torch

from day0.community.decode import FORMULAS
from day0.engine.release import Release
from day0.spec.registry import formats
from tests.checkpoint.drawn import sample
from tests.checkpoint.test_formats import equal
from tests.kernels.packed import BLOCKS, packed
from tests.zoo import checkpoint, every

FORMATS = dict(formats().items())


@pytest.mark.parametrize("name", FORMATS)
def test_declaration(name: str) -> None:
    form = FORMATS[name]
    assert form.name == name
    assert isinstance(form.packed, bool)


def test_plain_takes_what_is_left() -> None:
    assert max(FORMATS.values(), key=lambda form: form.order).name == "plain"
    assert not FORMATS["plain"].packed


@pytest.mark.parametrize("name", FORMATS)
def test_a_checkpoint_has_it(name: str) -> None:
    """So that the engine's tests run on it."""
    assert any(stored.format == name for one in every() for stored in Release.open(checkpoint(one)).checkpoint.stored.values())


PACKED = [name for name, form in FORMATS.items() if form.packed]


ROWS = ((0, 128), (128, 504), (8, 40), (136, 504), (496, 504))  # the last block of 128 is not whole


@pytest.mark.parametrize("name", PACKED)
def test_some_rows_of_a_matrix(name: str) -> None:
    """Those of the whole, bit for bit, also where they begin and end within blocks; words of several rows are not parted."""
    for block in {BLOCKS[name], *((48, 32), (32, 48)) * (name == "fp8_block"), *((1, 32),) * (name == "int4")}:
        whole = packed(name, torch.empty(504, 384), block)
        right = whole.decode(torch.empty(whole.shape))
        for start, stop in ROWS:
            some = whole.rows(start, stop)
            assert torch.equal(some.decode(torch.empty(some.shape)), right[start:stop]), (block, start, stop)
        if name in ("awq", "gptq") or "zeros" in whole.parts:
            with pytest.raises(ValueError, match="words of 8"):
                whole.rows(4, 12)


EXTREME = {  # type of a scale → its least and largest numbers, infinity and NaN where it has them, as it stores them
    torch.float32: torch.tensor([0.0, 2.0**-149, 2.0**-126, 3.0e38, torch.inf, torch.nan]),
    torch.float16: torch.tensor([0.0, 2.0**-24, 2.0**-14, 65504.0, torch.inf, torch.nan], dtype=torch.float16),
    torch.float8_e4m3fn: torch.tensor([0x00, 0x01, 0x08, 0x7E, 0x80, 0x7F], dtype=torch.uint8).view(torch.float8_e4m3fn),
    torch.uint8: torch.tensor([0, 1, 127, 254, 255, 128], dtype=torch.uint8),
}


def weight(name: str) -> tuple[dict[str, torch.Tensor], tuple[int, int], tuple[int, ...]]:
    """Parts, shape and block of one weight, with every byte among its codes."""
    if name != "fp8_block":
        return sample(name)
    data = torch.arange(96 * 32).remainder(256).to(torch.uint8).view(96, 32).view(torch.float8_e4m3fn)
    return {"data": data, "scale": torch.ones(3, 2)}, (96, 32), (32, 16)


@pytest.mark.parametrize("name", PACKED)
def test_extreme_scales(name: str) -> None:
    """Bit for bit as the second definition that `validate` uses, under scales at the edges of their type; any NaN is like any other."""
    parts, shape, block = weight(name)
    scale, edges = parts["scale"], EXTREME[parts["scale"].dtype]
    places = torch.arange(scale.numel()).remainder(len(edges))
    bits = edges.view(torch.uint8) if edges.element_size() == 1 else edges
    parts = parts | {"scale": bits[places].view(scale.dtype).view(scale.shape)}
    found = torch.full(shape, 0.5)
    FORMATS[name].decode(parts, block, found)
    theirs, _ = FORMULAS[name](parts | {"shape": torch.tensor(shape)}, {"weight_block_size": block, "group_size": block[-1] if block else None})
    assert equal(found, theirs) and found.isnan().any() and not found.isnan().all()
