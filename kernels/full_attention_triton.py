"""Attention of every token to every other in one pass over the keys (arXiv 2205.14135); scores and sums in float32."""

from __future__ import annotations

from typing import Any

from day0.kernels.tiles.softmax import LOG2E, fold
from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import tl, torch, triton
from day0.spec.ops import Impl, Site
from day0.spec.tuning import tuned


@triton.jit
def attend(
    q, k, v, out, T, H, q_token, q_head, k_token, k_head, v_token, v_head, scale, Q: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr,
    HEAD: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1).to(tl.int64)
    t, d = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, HEAD)
    real = (t < T)[:, None] & (d < Q)[None, :]
    query = tl.load(q + head * q_head + (t.to(tl.int64) * q_token)[:, None] + d[None, :], mask=real, other=0.0)
    best, total = tl.full([ROWS], float("-inf"), tl.float32), tl.zeros([ROWS], tl.float32)
    acc = tl.zeros([ROWS, HEAD], tl.float32)
    for start in range(0, T, KEYS):
        s = start + tl.arange(0, KEYS)
        there, row = (s < T)[:, None] & (d < Q)[None, :], s.to(tl.int64)[:, None]
        key = tl.load(k + head * k_head + row * k_token + d[None, :], mask=there, other=0.0)
        scores = tl.dot(query, tl.trans(key), input_precision="bf16x6")
        scores = tl.where((s < T)[None, :], scores * scale, float("-inf"))
        weights, fade, best, total = fold(scores, best, total)
        value = tl.load(v + head * v_head + row * v_token + d[None, :], mask=there, other=0.0)
        acc = tl.dot(weights.to(value.dtype), value, acc * fade[:, None], input_precision="bf16x6")
    result = out + ((t.to(tl.int64) * H + head) * Q)[:, None] + d[None, :]
    tl.store(result, (acc / total[:, None]).to(out.dtype.element_ty), mask=real)


def launch(q_THQ: Any, k_THQ: Any, v_THQ: Any, scale: float) -> Any:
    T, H, Q = q_THQ.shape
    q, k, v = (x if x.stride(2) == 1 else x.contiguous() for x in (q_THQ, k_THQ, v_THQ))
    out_THQ = torch.empty(T, H, Q, dtype=q.dtype, device=q.device)
    sizes = tuned("full_attention", q.device, bytes=q.element_size(), width=Q)
    attend[triton.cdiv(T, sizes["ROWS"]), H](
        q, k, v, out_THQ, T, H, *q.stride()[:2], *k.stride()[:2], *v.stride()[:2], scale * LOG2E, Q=Q,
        HEAD=max(16, triton.next_power_of_2(Q)), **sizes,
    )  # fmt: skip
    return out_THQ


def refuses(site: Site, machine: Any) -> str | None:
    if site.Q > 256:
        return "heads are wider than 256"
    return unlaunchable(site, machine)


IMPL = Impl(op="full_attention", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = tuple(Build(sizes={"T": 1024, "H": 16, "Q": width}) for width in (72, 128))
