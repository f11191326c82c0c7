"""Four-bit and eight-bit formats, bit for bit, against definitions written out by element and against the libraries that store them."""

import math

import pytest
import torch

from day0.formats import awq, fp8, gptq, int4, mxfp4, mxfp8, nvfp4
from day0.spec.registry import formats
from tests.checkpoint.drawn import Parts, draw, sample, scales
from tests.checkpoint.test_formats import e4m3, equal

WIDTHS = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
SIZES = [(1, 32), (63, 96), (5, 1024), (130, 64)]


def e2m1(code: int) -> float:
    """OCP Microscaling Formats 1.0, table 5: bias 1, one bit of mantissa, no infinity, no NaN."""
    exponent, mantissa = code >> 1 & 3, code & 1
    size = mantissa / 2 if exponent == 0 else (1 + mantissa / 2) * 2.0 ** (exponent - 1)
    return math.copysign(size, -1.0 if code & 8 else 1.0)


def e8m0(byte: int) -> float:
    return math.nan if byte == 255 else math.ldexp(1.0, byte - 127)


E2M1 = torch.tensor([e2m1(code) for code in range(16)], dtype=torch.float64)
E4M3 = torch.tensor([e4m3(code) for code in range(256)], dtype=torch.float64)
E8M0 = torch.tensor([e8m0(byte) for byte in range(256)], dtype=torch.float64)


def code(data: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
    """Codes of some columns of bytes that hold two, the even one in the low half."""
    byte = data.view(torch.uint8)[..., column // 2].long()
    return torch.where(column % 2 == 0, byte % 16, byte // 16)


def nibble(words: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    """Four bits of words, at the given place from the lowest on."""
    return (words.long() % 2**32) // 16**place % 16


def by_hand_fp4(parts: Parts, columns: int, group: int, book: torch.Tensor) -> torch.Tensor:
    column = torch.arange(columns)
    scale = book[parts["scale"].view(torch.uint8).long()]
    return E2M1[code(parts["data"], column)] * scale[..., column // group]


def decoded(name: str, parts: Parts, shape: tuple[int, ...], block: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    out = torch.full(shape, math.nan, dtype=dtype)
    formats().get(name).decode(parts, block, out)
    return out


def rounded(exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Through float32, unless float64 is wanted."""
    return exact if dtype == torch.float64 else exact.float().to(dtype)


@pytest.mark.parametrize("dtype", WIDTHS)
@pytest.mark.parametrize(("rows", "columns"), [*SIZES, (3, 40), (7, 2), (2, 62)])
def test_mxfp4(rows: int, columns: int, dtype: torch.dtype) -> None:
    """Ragged too: 40 columns are a group and a quarter."""
    parts = {"data": draw((rows, columns // 2)), "scale": draw((rows, -(-columns // 32)))}
    found = decoded("mxfp4", parts, (rows, columns), (1, 32), dtype)
    assert equal(found, rounded(by_hand_fp4(parts, columns, 32, E8M0), dtype))


def test_mxfp4_every_code_under_every_scale() -> None:
    data = torch.arange(256, dtype=torch.uint8).reshape(1, 16, 16).expand(256, 16, 16).reshape(256, 256).contiguous()
    scale = torch.arange(256, dtype=torch.uint8).reshape(256, 1).expand(256, 16).contiguous()
    exact = by_hand_fp4({"data": data, "scale": scale}, 512, 32, E8M0)
    assert exact[255].isnan().all() and exact[0].abs().max() > 0
    for dtype in WIDTHS:
        assert equal(decoded("mxfp4", {"data": data, "scale": scale}, (256, 512), (1, 32), dtype), rounded(exact, dtype))


@pytest.mark.parametrize("kind", [torch.uint8, torch.int8])
@pytest.mark.parametrize("power", [torch.uint8, torch.float8_e8m0fnu])
def test_mxfp4_layouts_hold_the_same_numbers(kind: torch.dtype, power: torch.dtype) -> None:
    data, scale = draw((2, 5, 48)), draw((2, 5, 3), 100, 140)
    plain = decoded("mxfp4", {"data": data, "scale": scale}, (2, 5, 96), (1, 32), torch.float32)
    assert equal(decoded("mxfp4", {"data": data.view(kind), "scale": scale.view(power)}, (2, 5, 96), (1, 32), torch.float32), plain)
    blocks = {"data": data.unflatten(-1, (3, 16)), "scale": scale}
    assert equal(decoded("mxfp4", blocks, (2, 5, 96), (1, 32), torch.float32), plain)


def test_mxfp4_against_transformers() -> None:
    convert = pytest.importorskip("transformers.integrations.mxfp4").convert_moe_packed_tensors
    blocks, scale = draw((3, 10, 4, 16)), draw((3, 10, 4), 10, 240)
    ours = decoded("mxfp4", {"data": blocks, "scale": scale}, (3, 10, 128), (1, 32), torch.float32)
    assert equal(ours, convert(blocks, scale, dtype=torch.float32).transpose(1, 2).contiguous())


def test_mxfp4_against_gguf() -> None:
    """ggml keeps a group as its scale and 16 bytes: elements 0 to 15 in the low halves, 16 to 31 in the high ones."""
    gguf = pytest.importorskip("gguf")
    data, scale = draw((6, 16)), draw((6, 1), 60, 200)
    codes = torch.stack((data % 16, data // 16), -1).flatten(1)
    block = torch.cat((scale, codes[:, :16] + 16 * codes[:, 16:]), 1)
    theirs = torch.from_numpy(gguf.quants.dequantize(block.numpy(), gguf.GGMLQuantizationType.MXFP4))
    assert equal(decoded("mxfp4", {"data": data, "scale": scale}, (6, 32), (1, 32), torch.float32), theirs)


def test_e2m1_against_torchao() -> None:
    kernels = pytest.importorskip("torchao.prototype.mx_formats.kernels")
    data = torch.arange(256, dtype=torch.uint8).reshape(1, 256)
    theirs = kernels.f4_unpacked_to_f32(kernels.unpack_uint4(data))
    assert equal(mxfp4.pairs(data), theirs)


@pytest.mark.parametrize("dtype", WIDTHS)
@pytest.mark.parametrize(("rows", "columns"), [(1, 32), (63, 96), (5, 1000), (2, 31), (1, 1)])
def test_mxfp8(rows: int, columns: int, dtype: torch.dtype) -> None:
    data, scale = draw((rows, columns)), draw((rows, -(-columns // 32)))
    exact = E4M3[data.long()] * E8M0[scale.long()][:, torch.arange(columns) // 32]
    found = decoded("mxfp8", {"data": data.view(torch.float8_e4m3fn), "scale": scale}, (rows, columns), (1, 32), dtype)
    assert equal(found, rounded(exact, dtype))


@pytest.mark.parametrize("name", ["factor", "divisor"])
@pytest.mark.parametrize(("rows", "columns"), [*SIZES, (3, 24), (2, 2), (256, 16)])
def test_nvfp4(rows: int, columns: int, name: str) -> None:
    """All 256 scale bytes, NaN among them, occur; a divisor divides."""
    scale = draw((rows, -(-columns // 16))) if rows < 256 else torch.arange(256, dtype=torch.uint8).reshape(256, 1)
    single = torch.tensor(0.0123 if name == "factor" else 187.3)
    parts = {"data": draw((rows, columns // 2)), "scale": scale.view(torch.float8_e4m3fn), name: single}
    exact = by_hand_fp4(parts, columns, 16, E4M3)
    exact = exact * single.double() if name == "factor" else exact / single.double()
    for dtype in WIDTHS[1:]:
        assert equal(decoded("nvfp4", parts, (rows, columns), (1, 16), dtype), rounded(exact, dtype))
    wide = decoded("nvfp4", parts, (rows, columns), (1, 16), torch.float64)
    assert equal(wide, exact)


@pytest.mark.parametrize("shape", [(3,), (3, 1), (3, 1, 1), (), (1,)])
def test_nvfp4_stacks_have_a_number_each_or_one(shape: tuple[int, ...]) -> None:
    parts = {"data": draw((3, 4, 8)), "scale": draw((3, 4, 1), 60, 100).view(torch.float8_e4m3fn)}
    factor = torch.arange(1.0, 1 + max(1, math.prod(shape))).reshape(shape)
    found = decoded("nvfp4", parts | {"factor": factor}, (3, 4, 16), (1, 16), torch.float64)
    own = factor.flatten().double().expand(3) if factor.numel() == 1 else factor.flatten().double()
    assert equal(found, by_hand_fp4(parts, 16, 16, E4M3) * own[:, None, None])


def oracle(kind: str, parts: Parts, **weights: object) -> torch.Tensor:
    base = pytest.importorskip("compressed_tensors.compressors")
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme

    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**weights))
    return base.BaseCompressor.get_value_from_registry(kind).decompress(parts, scheme)["weight"]


@pytest.mark.parametrize("kind", ["mxfp4", "nvfp4", "mxfp8"])
def test_floats_against_compressed_tensors(kind: str) -> None:
    """Their product is rounded to bfloat16, for nvfp4 the scale too."""
    columns, group = 192, 16 if kind == "nvfp4" else 32
    scale = draw((40, columns // group), 40, 120)
    stored = {"weight_scale": scale.view(torch.float8_e4m3fn) if kind == "nvfp4" else scale}
    if kind == "mxfp8":
        data = draw((40, columns), 0, 127).view(torch.float8_e4m3fn)
        theirs = oracle("mxfp8-quantized", stored | {"weight": data}, num_bits=8, type="float", strategy="group", group_size=32)
        parts = {"data": data, "scale": scale}
    else:
        data = draw((40, columns // 2))
        extra = {"weight_global_scale": torch.tensor([37.5])} if kind == "nvfp4" else {}
        strategy = "tensor_group" if extra else "group"
        arguments = {"num_bits": 4, "type": "float", "strategy": strategy, "group_size": group, "symmetric": True}
        theirs = oracle(f"{kind}-pack-quantized", stored | extra | {"weight_packed": data}, **arguments)
        parts = {"data": data, "scale": stored["weight_scale"]} | ({"divisor": torch.tensor([37.5])} if extra else {})
    ours = decoded(kind, parts, (40, columns), (1, group), torch.float32)
    assert theirs.dtype == torch.bfloat16
    torch.testing.assert_close(ours.bfloat16(), theirs, rtol=2**-7 if kind == "nvfp4" else 0, atol=0, equal_nan=True)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (20,), (20, 1)])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_fp8(shape: tuple[int, ...], kind: torch.dtype) -> None:
    data, scale = draw((20, 33)), scales(*shape, dtype=kind)
    exact = E4M3[data.long()] * scale.double().reshape(-1, 1)
    for dtype in WIDTHS:
        assert equal(decoded("fp8", {"data": data.view(torch.float8_e4m3fn), "scale": scale}, (20, 33), (), dtype), rounded(exact, dtype))


@pytest.mark.parametrize("shape", [(3,), (3, 1, 1), (3, 5, 1), ()])
def test_fp8_stacks(shape: tuple[int, ...]) -> None:
    data, scale = draw((3, 5, 7)), scales(*shape, dtype=torch.float32)
    own = scale.double() if scale.ndim == 3 else scale.double().reshape(-1, 1, 1)
    found = decoded("fp8", {"data": data.view(torch.float8_e4m3fn), "scale": scale}, (3, 5, 7), (), torch.float64)
    assert equal(found, E4M3[data.long()] * own)


@pytest.mark.parametrize("strategy", ["tensor", "channel"])
def test_fp8_against_compressed_tensors(strategy: str) -> None:
    data = draw((20, 33), 0, 127).view(torch.float8_e4m3fn)
    scale = scales(*((1,) if strategy == "tensor" else (20, 1)), dtype=torch.float32)
    stored = {"weight": data, "weight_scale": scale}
    theirs = oracle("float-quantized", stored, num_bits=8, type="float", strategy=strategy, symmetric=True)
    assert equal(decoded("fp8", {"data": data, "scale": scale}, (20, 33), (), torch.float32), theirs)


NAMES = ["mxfp4", "mxfp8", "nvfp4", "int4", "awq", "gptq", "fp8"]


@pytest.mark.parametrize("name", NAMES)
def test_stripes_join_and_targets_may_lie_turned(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parts, shape, block = sample(name)
    whole = decoded(name, parts, shape, block, torch.float32)
    for module in (mxfp4, gptq, awq):
        monkeypatch.setattr(module, "STRIPE", 1000)
    assert equal(decoded(name, parts, shape, block, torch.float32), whole)
    turned = torch.full(shape[::-1], math.nan)
    formats().get(name).decode(parts, block, turned.T)
    assert equal(turned.T.contiguous(), whole)


def test_every_packed_format_is_tested_here() -> None:
    assert {name for name, form in formats().items() if form.packed} == {*NAMES, "fp8_block"}
    assert all(module.FORMAT.packed for module in (fp8, int4, mxfp8, nvfp4))
