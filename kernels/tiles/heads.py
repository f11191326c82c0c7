"""One matrix product for each head, in the head's own matrix, read where it lies."""

from __future__ import annotations

from typing import Any

from day0.spec.lazy import tl, torch, triton


@triton.jit
def multiply(
    x, weight, out, T, H, O, x_token, x_head, w_head, w_inner: tl.constexpr, w_column: tl.constexpr, I: tl.constexpr, TOKENS: tl.constexpr,
    COLUMNS: tl.constexpr, INNER: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1).to(tl.int64)
    t = tl.program_id(2) * TOKENS + tl.arange(0, TOKENS)
    o = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    acc = tl.zeros([TOKENS, COLUMNS], tl.float32)
    for start in range(0, I, INNER):
        i = start + tl.arange(0, INNER)
        given = x + (t.to(tl.int64) * x_token + head * x_head)[:, None] + i[None, :]
        given = tl.load(given, mask=(t < T)[:, None] & (i < I)[None, :], other=0.0)
        own = weight + head * w_head + i[:, None] * w_inner + o[None, :] * w_column
        own = tl.load(own, mask=(i < I)[:, None] & (o < O)[None, :], other=0.0)
        acc = tl.dot(given, own, acc, input_precision="bf16x6")
    result = out + ((t.to(tl.int64) * H + head) * O)[:, None] + o[None, :]
    tl.store(result, acc.to(out.dtype.element_ty), mask=(t < T)[:, None] & (o < O)[None, :])


def by_head(x_THI: Any, weight_HIO: Any) -> Any:
    """→ [T, H, O]. The matrices may lie in any way that strides tell."""
    (T, H, I), O = x_THI.shape, weight_HIO.shape[2]
    x_THI = x_THI if x_THI.stride(-1) == 1 else x_THI.contiguous()
    out_THO = torch.empty(T, H, O, dtype=x_THI.dtype, device=x_THI.device)
    tokens, columns = max(16, min(64, triton.next_power_of_2(T))), max(16, min(128, triton.next_power_of_2(O)))
    multiply[triton.cdiv(O, columns), H, triton.cdiv(T, tokens)](
        x_THI, weight_HIO, out_THO, T, H, O, *x_THI.stride()[:2], *weight_HIO.stride(), I=I, TOKENS=tokens, COLUMNS=columns, INNER=32
    )
    return out_THO
