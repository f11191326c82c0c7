"""Queries into latent space: one matrix product a head, read where the weight lies."""

from __future__ import annotations

from typing import Any

from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import tl, torch, triton
from day0.spec.ops import Impl, Site


@triton.jit
def absorb(
    q, weight, out, T, H, C, rows, q_token, q_head, Q: tl.constexpr, TOKENS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr
):
    head = tl.program_id(1).to(tl.int64)
    t = tl.program_id(2) * TOKENS + tl.arange(0, TOKENS)
    c = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    acc = tl.zeros([TOKENS, COLUMNS], tl.float32)
    for start in range(0, Q, INNER):
        i = start + tl.arange(0, INNER)
        query = q + (t.to(tl.int64) * q_token + head * q_head)[:, None] + i[None, :]
        query = tl.load(query, mask=(t < T)[:, None] & (i < Q)[None, :], other=0.0)
        key = tl.load(weight + ((head * rows + i) * C)[:, None] + c[None, :], mask=(i < Q)[:, None] & (c < C)[None, :], other=0.0)
        acc = tl.dot(query, key, acc, input_precision="bf16x6")
    result = out + ((t.to(tl.int64) * H + head) * C)[:, None] + c[None, :]
    tl.store(result, acc.to(out.dtype.element_ty), mask=(t < T)[:, None] & (c < C)[None, :])


def launch(q_THQ: Any, kv_b_OC: Any, v_dim: int) -> Any:
    (T, H, Q), C = q_THQ.shape, kv_b_OC.shape[1]
    q_THQ, kv_b_OC = (x if x.stride(-1) == 1 else x.contiguous() for x in (q_THQ, kv_b_OC))
    out_THC = torch.empty(T, H, C, dtype=q_THQ.dtype, device=q_THQ.device)
    tokens, columns = max(16, min(64, triton.next_power_of_2(T))), max(16, min(128, triton.next_power_of_2(C)))
    absorb[triton.cdiv(C, columns), H, triton.cdiv(T, tokens)](
        q_THQ, kv_b_OC, out_THC, T, H, C, Q + v_dim, q_THQ.stride(0), q_THQ.stride(1), Q=Q, TOKENS=tokens, COLUMNS=columns, INNER=32
    )
    return out_THC


def refuses(site: Site, machine: Any) -> str | None:
    return unlaunchable(site, machine)


IMPL = Impl(op="absorb_query", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = tuple(Build(sizes={"T": T, "H": 128, "Q": 128, "V": 128, "C": 512}) for T in (1, 64))
