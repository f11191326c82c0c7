"""x · weightᵀ with the weight as it lies at rest."""

from __future__ import annotations

from typing import Any

from day0.kernels.tiles.matrix import Matrix
from day0.kernels.tiles.tile import accumulate, finish
from day0.spec.lazy import tl, triton
from day0.spec.tuning import tuned


@triton.jit
def product(
    x, y, bias, weight, lie, T, O, I, x_t, x_n, y_t, MEANING: tl.constexpr, BLOCK_T: tl.constexpr,
    BLOCK_O: tl.constexpr, BLOCK_I: tl.constexpr,
):  # fmt: skip
    """y [T, N · O] of x [T, N, I] and weight [N · O, I]; a program is some rows, some tokens, and one of N groups."""
    t = tl.program_id(1) * BLOCK_T + tl.arange(0, BLOCK_T)
    end_o = (tl.program_id(2) + 1) * O
    first_o = end_o - O + tl.program_id(0) * BLOCK_O
    rows = x + t.to(tl.int64)[:, None] * x_t + tl.program_id(2) * x_n
    sums = tl.zeros((BLOCK_T, BLOCK_O), tl.float32)
    for first_i in range(0, I, BLOCK_I):
        i = first_i + tl.arange(0, BLOCK_I)
        x_tile = tl.load(rows + i[None, :], mask=(t < T)[:, None] & (i < I)[None, :], other=0)
        sums = accumulate(sums, x_tile, weight, lie, first_o, end_o, first_i, I, MEANING, BLOCK_O, BLOCK_I)
    sums = finish(sums, weight, lie, bias, first_o, end_o, MEANING, BLOCK_O)
    o = first_o + tl.arange(0, BLOCK_O)
    tl.store(y + t.to(tl.int64)[:, None] * y_t + o[None, :], sums.to(y.dtype.element_ty), mask=(t < T)[:, None] & (o < end_o)[None, :])


def launch_product(x_TNI: Any, weight: Matrix, bias: Any, y_TO: Any) -> None:
    """Write y; each of the N groups of inputs has its own rows of the weight."""
    (T, N, I), O = x_TNI.shape, weight.shape[0] // x_TNI.shape[1]
    if not T:
        return
    sizes = tuned("product", x_TNI.device, T=T, bits=weight.bits, scattered=weight.scattered)
    grid = (triton.cdiv(O, sizes["BLOCK_O"]), triton.cdiv(T, sizes["BLOCK_T"]), N)
    product[grid](
        x_TNI, y_TO, bias, weight.tensors, weight.lie, T, O, I, x_TNI.stride(0), x_TNI.stride(1), y_TO.stride(0),
        MEANING=weight.meaning(sizes["BLOCK_I"]), **sizes,
    )  # fmt: skip
