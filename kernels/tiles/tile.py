"""A tile of a weight as it lies at rest, decoded on the way to a matrix product.

`weight` is (data, scale, zeros, groups, whole), None where there is none, and `lie` their strides as `Matrix.lie` has them. MEANING is
(FORM, KIND, SPREAD, ROWS, GROUP, LESS, DIVIDE). FORM says how codes lie: "plain" and "e4m3", one a place; "e2m1" and "int4", two a byte
along the inputs; "gptq", eight a word along the inputs; "awq", eight a word along the outputs. SPREAD says what a scale serves: "none",
there is no scale; "end", a whole row, so that sums are scaled at last; "step", the tile's part of a row, so that the tile's product is
scaled; "tile", a part of the tile's part; "each", the inputs of a group, wherever they are.
"""

from __future__ import annotations

from day0.kernels.tiles.codes import e2m1, e4m3, number
from day0.spec.lazy import tl, triton


@triton.jit
def accumulate(
    sums, x, weight, lie, first_o, end_o, first_i, I, MEANING: tl.constexpr, BLOCK_O: tl.constexpr,
    BLOCK_I: tl.constexpr,
):  # fmt: skip
    """`sums` [T, BLOCK_O] and the product of x [T, BLOCK_I] with a tile: rows from `first_o` to `end_o`, inputs from `first_i` to `I`."""
    w = tile(weight, lie, first_o, end_o, first_i, I, MEANING, BLOCK_O, BLOCK_I).to(x.dtype)
    if MEANING[2] == "step":
        factor = row_scale(weight, lie, first_o, end_o, first_i, MEANING, BLOCK_O)
        sums += tl.dot(x, tl.trans(w), input_precision="ieee") * factor[None, :]
    else:
        sums = tl.dot(x, tl.trans(w), sums, input_precision="ieee")
    return sums


@triton.jit
def finish(sums, weight, lie, bias, first_o, end_o, MEANING: tl.constexpr, BLOCK_O: tl.constexpr):
    """What is left to do once all inputs are summed."""
    DIVIDE: tl.constexpr = MEANING[6]
    whole = weight[4]
    if MEANING[2] == "end":
        sums *= row_scale(weight, lie, first_o, end_o, 0, MEANING, BLOCK_O)[None, :]
    if whole is not None:
        factor = tl.load(whole)
        sums = sums / factor if DIVIDE else sums * factor
    if bias is not None:
        o = first_o + tl.arange(0, BLOCK_O)
        sums += tl.load(bias + o, mask=o < end_o, other=0).to(tl.float32)[None, :]
    return sums


@triton.jit
def of_expert(weight, lie, e):
    """One matrix of a bank; `e` is int64, because banks are larger than 2^31 elements."""
    data, scale, zeros, groups, whole = weight
    if scale is not None:
        scale += e * lie[3]
    if zeros is not None:
        zeros += e * lie[6]
    if whole is not None:
        whole += e * lie[9]
    if groups is not None:
        groups += e * lie[10]
    return data + e * lie[0], scale, zeros, groups, whole


@triton.jit
def tile(weight, lie, first_o, end_o, first_i, I, MEANING: tl.constexpr, BLOCK_O: tl.constexpr, BLOCK_I: tl.constexpr):
    """[BLOCK_O, BLOCK_I], zeros beyond the edges. Scaled where SPREAD is "tile" or "each"."""
    FORM: tl.constexpr = MEANING[0]
    SPREAD: tl.constexpr = MEANING[2]
    GROUP: tl.constexpr = MEANING[4]
    data, scale, zeros, groups, _ = weight
    o = first_o + tl.arange(0, BLOCK_O)
    value = codes(data, first_o, end_o, first_i, I, lie[1], lie[2], FORM, BLOCK_O, BLOCK_I)
    if zeros is not None:
        words = groupwise(zeros, groups, o // 8, o < end_o, first_i, I, lie[7], lie[8], SPREAD, GROUP, BLOCK_I)
        lane = o % 8
        if FORM == "awq":
            lane = (lane >> 1) + (lane & 1) * 4
        middle = ((words >> (lane * 4)[:, None]) & 15) + MEANING[5]
        value -= spread(middle.to(tl.float32), SPREAD, GROUP, BLOCK_O, BLOCK_I)
    elif FORM == "int4":
        value -= 8.0
    if SPREAD == "tile" or SPREAD == "each":
        factor = groupwise(scale, groups, o // MEANING[3], o < end_o, first_i, I, lie[4], lie[5], SPREAD, GROUP, BLOCK_I)
        value *= spread(number(factor, MEANING[1]), SPREAD, GROUP, BLOCK_O, BLOCK_I)
    return value


@triton.jit
def codes(
    data, first_o, end_o, first_i, I, data_o, data_i, FORM: tl.constexpr, BLOCK_O: tl.constexpr, BLOCK_I: tl.constexpr
):  # fmt: skip
    """The numbers that codes mean, not scaled, in float32 (plain ones as they are)."""
    o = first_o + tl.arange(0, BLOCK_O)
    i = first_i + tl.arange(0, BLOCK_I)
    row = o.to(tl.int64)[:, None] * data_o
    if FORM == "e2m1" or FORM == "int4":
        pair = first_i // 2 + tl.arange(0, BLOCK_I // 2)
        byte = tl.load(data + row + pair[None, :], mask=(o < end_o)[:, None] & (pair * 2 < I)[None, :], other=0).to(tl.int32)
        code = tl.reshape(tl.join(byte & 15, byte >> 4), (BLOCK_O, BLOCK_I))
        value = e2m1(code) if FORM == "e2m1" else code.to(tl.float32)
    elif FORM == "gptq":
        word = first_i // 8 + tl.arange(0, BLOCK_I // 8)
        words = tl.load(data + row + word.to(tl.int64)[None, :] * data_i, mask=(o < end_o)[:, None] & (word * 8 < I)[None, :], other=0)
        code = (words[:, :, None] >> (tl.arange(0, 8) * 4)[None, None, :]) & 15
        value = tl.reshape(code, (BLOCK_O, BLOCK_I)).to(tl.float32)
    elif FORM == "awq":
        word = first_o // 8 + tl.arange(0, BLOCK_O // 8)
        inside = (word * 8 < end_o)[:, None] & (i < I)[None, :]
        words = tl.load(data + word.to(tl.int64)[:, None] * data_o + i.to(tl.int64)[None, :] * data_i, mask=inside, other=0)
        lane = tl.arange(0, 8)
        code = (words[:, None, :] >> (((lane >> 1) + (lane & 1) * 4) * 4)[None, :, None]) & 15
        value = tl.reshape(code, (BLOCK_O, BLOCK_I)).to(tl.float32)
    else:
        inside = (o < end_o)[:, None] & (i < I)[None, :]
        value = tl.load(data + row + i.to(tl.int64)[None, :] * data_i, mask=inside, other=0)
        if FORM == "e4m3":
            value = e4m3(value)
    return value


@triton.jit
def groupwise(
    source, groups, row, inside, first_i, I, stride_o, stride_g, SPREAD: tl.constexpr, GROUP: tl.constexpr, BLOCK_I: tl.constexpr
):  # fmt: skip
    """What a companion holds for each row and each group that the tile touches: one, a few, or one for each input."""
    if SPREAD == "each":
        i = first_i + tl.arange(0, BLOCK_I)
        group = i // GROUP
        if groups is not None:
            stated = tl.load(groups + i, mask=i < I, other=0).to(tl.int32)
            group = tl.where(stated < 0, group, stated)
        known = i < I
    elif SPREAD == "tile":
        group = first_i // GROUP + tl.arange(0, BLOCK_I // GROUP)
        known = group * GROUP < I
    else:
        group = first_i // GROUP + tl.arange(0, 1)
        known = group >= 0
    place = row.to(tl.int64)[:, None] * stride_o + group.to(tl.int64)[None, :] * stride_g
    return tl.load(source + place, mask=inside[:, None] & known[None, :], other=0)


@triton.jit
def spread(value, SPREAD: tl.constexpr, GROUP: tl.constexpr, BLOCK_O: tl.constexpr, BLOCK_I: tl.constexpr):
    """As many columns as the tile has, where groups are parts of it."""
    if SPREAD == "tile":
        value = tl.reshape(tl.broadcast_to(value[:, :, None], (BLOCK_O, BLOCK_I // GROUP, GROUP)), (BLOCK_O, BLOCK_I))
    return value


@triton.jit
def row_scale(weight, lie, first_o, end_o, first_i, MEANING: tl.constexpr, BLOCK_O: tl.constexpr):
    """[BLOCK_O]: the scale of each row where one serves the whole tile."""
    o = first_o + tl.arange(0, BLOCK_O)
    place = (o // MEANING[3]).to(tl.int64) * lie[4] + (first_i // MEANING[4]) * lie[5]
    return number(tl.load(weight[1] + place, mask=o < end_o, other=0), MEANING[1])
