"""The selective scan in chunks: inside a chunk every pair of tokens, between chunks the state of one head (arXiv 2405.21060, §6).

In float32; products in six bfloat16 products, as precise.
"""

from __future__ import annotations

from typing import Any

from day0.kernels.tiles.runs import spans
from day0.kernels.tiles.softplus import softplus
from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import tl, torch, triton
from day0.spec.ops import Impl, Site
from day0.spec.tuning import tuned


@triton.jit
def carry(
    x, steps, b, c, rate_log, bias, skip, spans, state, out, last, x_token, x_head, step_token, b_token, b_group, c_token, c_group, share,
    least, H: tl.constexpr, Q: tl.constexpr, V: tl.constexpr, SIZE: tl.constexpr, HEAD: tl.constexpr, COLUMNS: tl.constexpr,
    OUT: tl.constexpr,
):  # fmt: skip
    sequence, h = tl.program_id(2), tl.program_id(1)
    first, count = tl.load(spans + sequence * 2), tl.load(spans + sequence * 2 + 1)
    rate, more = tl.exp(tl.load(rate_log + h).to(tl.float32)), tl.load(bias + h).to(tl.float32)
    passed = tl.load(skip + h).to(tl.float32)
    i, d, e = tl.arange(0, SIZE), tl.arange(0, HEAD), tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    cells = ((sequence * H + h).to(tl.int64) * Q + d)[:, None] * V + e[None, :]
    held = (d < Q)[:, None] & (e < V)[None, :]
    S = tl.load(state + cells, mask=held, other=0.0).to(tl.float32)
    for start in range(0, count, SIZE):
        token, real = (first + start + i).to(tl.int64), start + i < count
        inside, shown = real[:, None] & (d < Q)[None, :], real[:, None] & (e < V)[None, :]
        raw = tl.load(steps + token * step_token + h, mask=real, other=0.0).to(tl.float32) + more
        step = tl.maximum(softplus(raw), least)
        step = tl.where(real, step, 0.0)
        total, whole = -rate * tl.cumsum(step, 0), -rate * tl.sum(step, 0)
        b_i = tl.load(b + (token * b_token + h // share * b_group)[:, None] + d[None, :], mask=inside, other=0.0).to(tl.float32)
        c_i = tl.load(c + (token * c_token + h // share * c_group)[:, None] + d[None, :], mask=inside, other=0.0).to(tl.float32)
        value = tl.load(x + (token * x_token + h * x_head)[:, None] + e[None, :], mask=shown, other=0.0).to(tl.float32)
        later = i[:, None] < i[None, :]
        kept = tl.where(later, 0.0, tl.exp(tl.where(later, 0.0, total[:, None] - total[None, :]))) * step[None, :]
        scores = tl.dot(c_i, tl.trans(b_i), input_precision=OUT) * kept
        y = tl.dot(c_i * tl.exp(total)[:, None], S, value * passed, input_precision=OUT)
        y = tl.dot(scores, value, y, input_precision=OUT)
        tl.store(out + ((token * H + h) * V)[:, None] + e[None, :], y.to(out.dtype.element_ty), mask=shown)
        rest = tl.exp(whole - total) * step
        S = tl.dot(tl.trans(b_i * rest[:, None]), value, S * tl.exp(whole), input_precision="bf16x6")
    tl.store(last + cells, S, mask=held)


def launch(
    x_THV: Any, step_TH: Any, b_TGQ: Any, c_TGQ: Any, rate_log_H: Any, bias_H: Any, skip_H: Any, least: float, state_BHQV: Any,
    queries: tuple[int, ...],
) -> tuple[Any, Any]:  # fmt: skip
    (T, H, V), (G, Q), device = x_THV.shape, b_TGQ.shape[1:], x_THV.device
    x, step, b, c = (one if one.stride(-1) == 1 else one.contiguous() for one in (x_THV, step_TH, b_TGQ, c_TGQ))
    out = torch.empty(T, H, V, dtype=x.dtype, device=device)
    last = torch.empty(state_BHQV.shape, dtype=torch.float32, device=device)
    sizes, head = tuned("selective_scan", device), max(16, triton.next_power_of_2(Q))
    carry[triton.cdiv(V, sizes["COLUMNS"]), H, len(queries)](
        x, step, b, c, rate_log_H, bias_H, skip_H, spans(queries, device), state_BHQV.contiguous(), out, last, *x.stride()[:2],
        step.stride(0), *b.stride()[:2], *c.stride()[:2], H // G, float(least), H=H, Q=Q, V=V, SIZE=16, HEAD=head,
        OUT="bf16x6" if x.element_size() == 4 else "bf16x3", **sizes,
    )  # fmt: skip
    return out, last


def refuses(site: Site, machine: Any) -> str | None:
    return unlaunchable(site, machine)


IMPL = Impl(op="selective_scan", provider="triton", fn=launch, refuses=refuses, status="compiled")
NARROW = dict.fromkeys(("sm_80", "sm_120"), "without wgmma the bfloat16 parts of float32 queries and keys are whole in every warp")
BUILDS = (Build(sizes={"queries": (2048,), "H": 128, "G": 8, "Q": 128, "V": 64}, explained=NARROW),)
