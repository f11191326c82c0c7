"""Formats of four-bit integers, bit for bit, against their definitions and against compressed-tensors."""

import pytest
import torch

from tests.checkpoint.drawn import Parts, draw, scales, words
from tests.checkpoint.test_formats import equal
from tests.checkpoint.test_formats_packed import WIDTHS, decoded, nibble, oracle, rounded


def by_hand_int4(parts: Parts, shape: tuple[int, int], group_of: torch.Tensor) -> torch.Tensor:
    row, column = torch.arange(shape[0]), torch.arange(shape[1])
    codes = nibble(parts["data"][:, column // 8], column % 8)
    zeros = nibble(parts["zeros"][row // 8], (row % 8)[:, None]) if "zeros" in parts else torch.full(parts["scale"].shape, 8)
    return (codes - zeros[:, group_of]).double() * parts["scale"].double()[:, group_of]


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(("rows", "columns", "group"), [
    (1, 32, 32), (63, 96, 32), (13, 60, 60), (130, 256, 128), (9, 65, 65), (20, 40, 32),
])  # fmt: skip
def test_int4(rows: int, columns: int, group: int, zeros: bool) -> None:
    """Words that are not full, rows that do not fill a word of zeros, a last group that is short."""
    groups = -(-columns // group)
    parts = {"data": words(rows, -(-columns // 8)), "scale": scales(rows, groups), "shape": torch.tensor([rows, columns])}
    if zeros:
        parts["zeros"] = words(-(-rows // 8), groups)
    for dtype in WIDTHS:
        exact = by_hand_int4(parts, (rows, columns), torch.arange(columns) // group)
        assert equal(decoded("int4", parts, (rows, columns), (1, group), dtype), rounded(exact, dtype))


@pytest.mark.parametrize("zeros", [False, True])
def test_int4_order_of_groups(zeros: bool) -> None:
    parts = {"data": words(11, 8), "scale": scales(11, 2), "shape": torch.tensor([11, 64])} | ({"zeros": words(2, 2)} if zeros else {})
    group_of = draw((64,), 0, 2, torch.int32)
    found = decoded("int4", parts | {"group_of": group_of}, (11, 64), (1, 32), torch.float64)
    assert equal(found, by_hand_int4(parts, (11, 64), group_of.long()))
    unused = decoded("int4", parts | {"group_of": torch.full((64,), -1)}, (11, 64), (1, 32), torch.float64)
    assert equal(unused, by_hand_int4(parts, (11, 64), torch.arange(64) // 32))


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize(("rows", "columns", "group"), [(63, 96, 32), (13, 60, 60)])
def test_int4_against_compressed_tensors(rows: int, columns: int, group: int, symmetric: bool) -> None:
    parts = {"data": words(rows, -(-columns // 8)), "scale": scales(rows, columns // group, dtype=torch.float32)}
    theirs = {"weight_packed": parts["data"], "weight_scale": parts["scale"], "weight_shape": torch.tensor([rows, columns])}
    if not symmetric:
        parts["zeros"] = theirs["weight_zero_point"] = words(-(-rows // 8), columns // group)
    strategy = {"strategy": "group", "group_size": group} if group < columns else {"strategy": "channel"}
    expected = oracle("pack-quantized", theirs, num_bits=4, type="int", symmetric=symmetric, **strategy)
    assert equal(decoded("int4", parts, (rows, columns), (1, group), torch.float32), expected)


@pytest.mark.parametrize(("rows", "columns", "group"), [(8, 32, 32), (64, 96, 32), (24, 60, 60), (136, 256, 128), (16, 100, 32)])
def test_awq(rows: int, columns: int, group: int) -> None:
    groups = -(-columns // group)
    parts = {"data": words(columns, rows // 8), "zeros": words(groups, rows // 8), "scale": scales(groups, rows)}
    place = torch.tensor([0, 4, 1, 5, 2, 6, 3, 7])
    row, group_of = torch.arange(rows), torch.arange(columns) // group
    codes, zeros = (nibble(parts[part][:, row // 8], place[row % 8]) for part in ("data", "zeros"))
    exact = ((codes - zeros[group_of]).double() * parts["scale"].double()[group_of]).T.contiguous()
    for dtype in WIDTHS:
        assert equal(decoded("awq", parts, (rows, columns), (1, group), dtype), rounded(exact, dtype))


def test_awq_against_compressed_tensors() -> None:
    convert = pytest.importorskip("compressed_tensors.entrypoints.convert.converters.autoawq").AutoAWQConverter(group_size=32)
    parts = {"data": words(96, 3), "zeros": words(3, 3), "scale": scales(3, 24)}
    codes, scale, zeros = convert._convert_gemm_module(parts["data"], parts["scale"], parts["zeros"])
    group_of = torch.arange(96) // 32
    theirs = (codes.double() - zeros.double()[:, group_of]) * scale.double()[:, group_of]
    assert equal(decoded("awq", parts, (24, 96), (1, 32), torch.float64), theirs)


@pytest.mark.parametrize("version", ["zeros", "zeros_less_one"])
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize(("rows", "columns", "group"), [(8, 32, 32), (64, 96, 32), (24, 64, 64), (136, 256, 128), (16, 104, 32)])
def test_gptq(rows: int, columns: int, group: int, ordered: bool, version: str) -> None:
    groups = -(-columns // group)
    parts = {"data": words(columns // 8, rows), version: words(groups, rows // 8), "scale": scales(groups, rows)}
    group_of, row, column = torch.arange(columns) // group, torch.arange(rows), torch.arange(columns)
    if ordered:
        group_of = group_of[torch.randperm(columns, generator=torch.Generator().manual_seed(3))]
        parts["group_of"] = group_of.int()
    codes = nibble(parts["data"][column // 8], (column % 8)[:, None])
    zeros = nibble(parts[version][:, row // 8], row % 8) + (version == "zeros_less_one")
    exact = ((codes - zeros[group_of]).double() * parts["scale"].double()[group_of]).T.contiguous()
    for dtype in WIDTHS:
        assert equal(decoded("gptq", parts, (rows, columns), (1, group), dtype), rounded(exact, dtype))
