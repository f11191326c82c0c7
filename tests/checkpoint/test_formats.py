"""Decoded weights, bit for bit, against formulas on the bits of codes and scales, and against compressed-tensors."""

import math

import pytest
import torch

from day0.formats import fp8_block, plain
from day0.spec.format import TensorHeader

SQUARE = (128, 128)
SHAPES = [
    ((200, 300), SQUARE), ((576, 1536), SQUARE), ((1, 1000), SQUARE), ((256, 256), SQUARE), ((63, 64), (32, 16)), ((8, 256), (1, 128)),
]  # fmt: skip


def e4m3(code: int) -> float:
    """OCP 8-bit floating point, table 1: bias 7, no infinities, NaN at S.1111.111."""
    sign, exponent, mantissa = -1.0 if code >> 7 else 1.0, code >> 3 & 15, code & 7
    if code & 127 == 127:
        return math.nan
    return sign * (mantissa / 8 * 2.0**-6 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7))


def codes(shape: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    raw = torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)
    return raw.masked_fill(raw & 127 == 127, 0).view(torch.float8_e4m3fn)


def scales(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return (torch.rand(shape, generator=torch.Generator().manual_seed(1)) * 1e-3 + 1e-5).to(dtype)


def by_hand(data: torch.Tensor, scale: torch.Tensor, block: tuple[int, int]) -> torch.Tensor:
    """Element by element in float64: exact, since a code has 4 bits and a scale at most 24."""
    table = torch.tensor([e4m3(code) for code in range(256)], dtype=torch.float64)
    rows, columns = torch.arange(data.shape[0]) // block[0], torch.arange(data.shape[1]) // block[1]
    return table[data.view(torch.uint8).long()] * scale.double()[rows][:, columns]


def decoded(data: torch.Tensor, scale: torch.Tensor, block: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    out = torch.full(data.shape, math.nan, dtype=dtype)
    fp8_block.decode({"data": data, "scale": scale}, block, out)
    return out


def equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Same bits, any NaN equal to any other."""
    return a.dtype == b.dtype and bool(((a == b) | (a.isnan() & b.isnan())).all())


def test_all_codes() -> None:
    data = torch.arange(256, dtype=torch.uint8).reshape(16, 16).view(torch.float8_e4m3fn)
    out = decoded(data, torch.ones(1, 1), (128, 128), torch.float32)
    assert equal(out, torch.tensor([e4m3(code) for code in range(256)], dtype=torch.float32).reshape(16, 16))


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("shape", "block"), SHAPES)
def test_blocks_and_ragged_edges(shape: tuple[int, int], block: tuple[int, int], kind: torch.dtype) -> None:
    data, scale = codes(shape), scales(fp8_block.grid(shape, block), kind)
    exact = by_hand(data, scale, block)
    assert equal(decoded(data, scale, block, torch.float64), exact)
    assert equal(decoded(data, scale, block, torch.float32), exact.float())
    assert equal(decoded(data, scale, block, torch.bfloat16), exact.float().bfloat16())


def test_stripes_join(monkeypatch: pytest.MonkeyPatch) -> None:
    data, scale = codes((1000, 300)), scales((8, 3))
    monkeypatch.setattr(fp8_block, "STRIPE", 300 * 128 * 3)
    assert equal(decoded(data, scale, (128, 128), torch.float64), by_hand(data, scale, (128, 128)))


def test_stacked_experts_and_no_rows() -> None:
    data, scale = codes((3, 200, 100)), scales((3, 2, 1))
    out = decoded(data, scale, (128, 128), torch.float64)
    assert all(equal(out[e], by_hand(data[e], scale[e], (128, 128))) for e in range(3))
    assert decoded(codes((0, 128)), scales((0, 1)), (128, 128), torch.float32).shape == (0, 128)


@pytest.mark.parametrize("kind", [torch.uint8, torch.float8_e8m0fnu])
def test_power_of_two_scales(kind: torch.dtype) -> None:
    """All 256 bytes: 2^(b - 127), subnormal at 0, NaN at 255 (OCP MX 1.0, §5.4.1)."""
    scale = torch.arange(256, dtype=torch.uint8).reshape(256, 1).view(kind)
    expected = torch.tensor([math.ldexp(1.0, b - 127) for b in range(255)] + [math.nan], dtype=torch.float64)
    one = torch.full((256, 1), 0x38, dtype=torch.uint8).view(torch.float8_e4m3fn)
    assert equal(decoded(one, scale, (1, 1), torch.float64)[:, 0], expected)
    single = decoded(one, scale, (1, 1), torch.float32)[:, 0]
    assert single[0] != 0 and equal(single, expected.float())


@pytest.mark.parametrize(("shape", "block"), [((256, 384), (128, 128)), ((200, 300), (128, 128)), ((64, 96), (32, 16))])
def test_against_compressed_tensors(shape: tuple[int, int], block: tuple[int, int]) -> None:
    forward = pytest.importorskip("compressed_tensors.quantization.lifecycle.forward")
    from compressed_tensors.quantization import QuantizationArgs

    args = QuantizationArgs(num_bits=8, type="float", strategy="block", block_structure=list(block), symmetric=True)
    data, scale = codes(shape), scales(fp8_block.grid(shape, block))
    theirs = forward.dequantize(data, scale, args=args, dtype=torch.float32)
    assert equal(decoded(data, scale, block, torch.float32), theirs)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_plain_rounds_once(dtype: torch.dtype) -> None:
    data = torch.randn(63, 60, dtype=torch.float64, generator=torch.Generator().manual_seed(2)).to(dtype)
    out = torch.empty(63, 60, dtype=torch.bfloat16)
    plain.decode({"data": data}, (), out)
    assert torch.equal(out, data.to(torch.bfloat16))


def headers(**tensors: tuple[str, tuple[int, ...]]) -> dict[str, TensorHeader]:
    return {name: TensorHeader(name, dtype, shape, "x", 0, 0) for name, (dtype, shape) in tensors.items()}


def recognised(found: dict[str, TensorHeader], config: dict | None = None) -> dict[str, tuple[int, ...]]:
    return {stored.name: stored.block for stored in fp8_block.recognise(found, config or {})}


@pytest.mark.parametrize("companion", ["a.weight_scale_inv", "a.scale"])
@pytest.mark.parametrize("dtype", ["F32", "BF16", "F8_E8M0", "U8"])
def test_companions(companion: str, dtype: str) -> None:
    found = headers(**{"a.weight": ("F8_E4M3", (200, 300)), companion: (dtype, (2, 3)), "a.bias": ("F32", (200,))})
    (stored,) = fp8_block.recognise(found, {"weight_block_size": [128, 128]})
    assert stored.name == "a.weight" and stored.block == (128, 128) and stored.parts["scale"].name == companion


@pytest.mark.parametrize(
    ("weight", "grid", "stated", "block"),
    [
        ((256, 512), (2, 4), [128, 128], (128, 128)),
        ((256, 512), (2, 4), None, (128, 128)),
        ((200, 300), (2, 3), None, (128, 128)),
        ((192, 384), (2, 3), None, (128, 128)),
        ((96, 96), (3, 3), None, (32, 32)),
        ((96, 96), (2, 2), [128, 128], (64, 64)),
        ((8, 256), (8, 2), None, (1, 128)),
        ((60, 70), (3, 7), None, (20, 10)),
        ((4, 200, 300), (4, 2, 3), None, (128, 128)),
    ],
)
def test_block_size(weight: tuple[int, ...], grid: tuple[int, ...], stated: list[int] | None, block: tuple[int, int]) -> None:
    found = headers(**{"a.weight": ("F8_E4M3", weight), "a.weight_scale_inv": ("F32", grid)})
    assert recognised(found, {"weight_block_size": stated}) == {"a.weight": block}


def test_one_block_for_all() -> None:
    """A shape that fits several blocks is read with the block of its neighbours."""
    found = headers(**{"a.weight": ("F8_E4M3", (256, 256)), "a.weight_scale_inv": ("F32", (4, 4)), "b.weight": ("F8_E4M3", (100, 100)),
                       "b.weight_scale_inv": ("F32", (2, 2))})  # fmt: skip
    assert recognised(found) == {"a.weight": (64, 64), "b.weight": (64, 64)}


def test_wrong_grid_and_no_scale_are_not_taken() -> None:
    good = {"a.weight": ("F8_E4M3", (256, 256)), "a.weight_scale_inv": ("F32", (2, 2))}
    bad = {"b.weight": ("F8_E4M3", (256, 256)), "b.weight_scale_inv": ("F32", (1, 2)), "c.weight": ("F8_E4M3", (256, 256))}
    assert recognised(headers(**good, **bad), {"weight_block_size": [128, 128]}) == {"a.weight": (128, 128)}
    assert recognised(headers(**bad), {"weight_block_size": [128, 128]}) == {}
