"""Lightning attention in chunks: inside a chunk every pair of tokens, between chunks the state of one head (arXiv 2401.04658, §3).

In float32; products in six bfloat16 products, as precise.
"""

from __future__ import annotations

from typing import Any

from day0.kernels.tiles.runs import spans
from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import tl, torch, triton
from day0.spec.ops import Impl, Site
from day0.spec.tuning import tuned


@triton.jit
def carry(
    q, k, v, slopes, spans, state, out, last, q_token, q_head, k_token, k_head, v_token, v_head, H: tl.constexpr, Q: tl.constexpr,
    V: tl.constexpr, SIZE: tl.constexpr, HEAD: tl.constexpr, COLUMNS: tl.constexpr, OUT: tl.constexpr,
):  # fmt: skip
    sequence, h = tl.program_id(2), tl.program_id(1)
    first, count = tl.load(spans + sequence * 2), tl.load(spans + sequence * 2 + 1)
    slope = tl.load(slopes + h)
    i, d, e = tl.arange(0, SIZE), tl.arange(0, HEAD), tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    cells = ((sequence * H + h).to(tl.int64) * Q + d)[:, None] * V + e[None, :]
    held = (d < Q)[:, None] & (e < V)[None, :]
    S = tl.load(state + cells, mask=held, other=0.0).to(tl.float32)
    apart = i[:, None] - i[None, :]
    kept = tl.where(apart >= 0, tl.exp(-slope * tl.maximum(apart, 0)), 0.0)
    for start in range(0, count, SIZE):
        token, real, size = (first + start + i).to(tl.int64), start + i < count, tl.minimum(SIZE, count - start)
        inside = real[:, None] & (d < Q)[None, :]
        q_i = tl.load(q + (token * q_token + h * q_head)[:, None] + d[None, :], mask=inside, other=0.0).to(tl.float32)
        k_i = tl.load(k + (token * k_token + h * k_head)[:, None] + d[None, :], mask=inside, other=0.0).to(tl.float32)
        value = v + (token * v_token + h * v_head)[:, None] + e[None, :]
        value = tl.load(value, mask=real[:, None] & (e < V)[None, :], other=0.0).to(tl.float32)
        scores = tl.dot(q_i, tl.trans(k_i), input_precision=OUT) * kept
        o = tl.dot(q_i * tl.exp(-slope * (i + 1))[:, None], S, input_precision=OUT)
        o = tl.dot(scores, value, o, input_precision=OUT)
        result = out + ((token * H + h) * V)[:, None] + e[None, :]
        tl.store(result, o.to(out.dtype.element_ty), mask=real[:, None] & (e < V)[None, :])
        rest = tl.exp(-slope * tl.maximum(size - 1 - i, 0))
        S = tl.dot(tl.trans(k_i * rest[:, None]), value, S * tl.exp(-slope * size), input_precision="bf16x6")
    tl.store(last + cells, S, mask=held)


def launch(
    q_THQ: Any, k_THQ: Any, v_THV: Any, slopes: tuple[float, ...], state_BHQV: Any, queries: tuple[int, ...]
) -> tuple[Any, Any]:
    (T, H, Q), V, device = q_THQ.shape, v_THV.shape[2], q_THQ.device
    q, k, v = (x if x.stride(2) == 1 else x.contiguous() for x in (q_THQ, k_THQ, v_THV))
    out = torch.empty(T, H, V, dtype=v.dtype, device=device)
    last = torch.empty(state_BHQV.shape, dtype=torch.float32, device=device)
    sizes, head = tuned("lightning_attention", device), max(16, triton.next_power_of_2(Q))
    carry[triton.cdiv(V, sizes["COLUMNS"]), H, len(queries)](
        q, k, v, torch.tensor(slopes, dtype=torch.float32, device=device), spans(queries, device), state_BHQV.contiguous(), out, last,
        *q.stride()[:2], *k.stride()[:2], *v.stride()[:2], H=H, Q=Q, V=V, SIZE=16, HEAD=head,
        OUT="bf16x6" if v.element_size() == 4 else "bf16x3", **sizes,
    )  # fmt: skip
    return out, last


def refuses(site: Site, machine: Any) -> str | None:
    return unlaunchable(site, machine)


IMPL = Impl(op="lightning_attention", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = (Build(sizes={"queries": (2048,), "H": 64, "Q": 128, "V": 128}),)
