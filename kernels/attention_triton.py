"""Causal attention of one sequence in one pass over the keys (arXiv 2205.14135); scores and sums in float32.

A tile's rows are (token, head) pairs of the heads that share a key head, so that keys are read once for all of them.
"""

from __future__ import annotations

from typing import Any

from day0.kernels.tiles.runs import halves
from day0.kernels.tiles.softmax import LOG2E, fold
from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import tl, torch, triton
from day0.spec.ops import Impl, Site
from day0.spec.tuning import tuned


@triton.jit
def attend(
    q, k, v, sinks, seen, out, T, S, H, q_token, q_head, k_token, k_head, v_token, v_head, scale, G: tl.constexpr, Q: tl.constexpr,
    V: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, HEAD: tl.constexpr, TAIL: tl.constexpr, VALUE: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    real, token, head = row < T * G, (row // G).to(tl.int64), n * G + row % G
    d, e, t = tl.arange(0, HEAD), tl.arange(0, VALUE), HEAD + tl.arange(0, TAIL if TAIL else 1)
    query = q + (token * q_token + head * q_head)[:, None]
    q_main = tl.load(query + d[None, :], mask=real[:, None] & (d < Q)[None, :], other=0.0)
    if TAIL:
        q_tail = tl.load(query + t[None, :], mask=real[:, None] & (t < Q)[None, :], other=0.0)
    best, total = tl.full([ROWS], float("-inf"), tl.float32), tl.zeros([ROWS], tl.float32)
    if sinks is not None:
        best = tl.load(sinks + head, mask=real, other=0.0).to(tl.float32) * 1.4426950408889634
        total += 1.0
    acc = tl.zeros([ROWS, VALUE], tl.float32)
    end = S
    if seen is None:
        end = tl.minimum(S, S - T + tl.cdiv((tl.program_id(0) + 1) * ROWS, G))
    for start in range(0, end, KEYS):
        s = start + tl.arange(0, KEYS)
        there, key = s < end, k + n * k_head + s.to(tl.int64) * k_token
        scores = tl.dot(q_main, tl.load(key[None, :] + d[:, None], mask=there[None, :] & (d < Q)[:, None], other=0.0), input_precision="bf16x6")
        if TAIL:
            k_tail = tl.load(key[None, :] + t[:, None], mask=there[None, :] & (t < Q)[:, None], other=0.0)
            scores = tl.dot(q_tail, k_tail, scores, input_precision="bf16x6")
        if seen is None:
            shown = there[None, :] & (s[None, :] <= (S - T + token)[:, None])
        else:
            shown = tl.load(seen + (token * S)[:, None] + s[None, :], mask=real[:, None] & there[None, :], other=0) != 0
        scores = tl.where(shown, scores * scale, float("-inf"))
        weights, fade, best, total = fold(scores, best, total)
        value = v + n * v_head + (s.to(tl.int64) * v_token)[:, None] + e[None, :]
        value = tl.load(value, mask=there[:, None] & (e < V)[None, :], other=0.0)
        acc = tl.dot(weights.to(value.dtype), value, acc * fade[:, None], input_precision="bf16x6")
    result = out + ((token * H + head) * V)[:, None] + e[None, :]
    tl.store(result, (acc / total[:, None]).to(out.dtype.element_ty), mask=real[:, None] & (e < V)[None, :])


def launch(q_THQ: Any, k_SNQ: Any, v_SNV: Any, scale: float, sinks_H: Any = None, seen_TS: Any = None) -> Any:
    (T, H, Q), (S, N, V) = q_THQ.shape, v_SNV.shape
    q, k, v = (x if x.stride(2) == 1 else x.contiguous() for x in (q_THQ, k_SNQ, v_SNV))
    out_THV = torch.empty(T, H, V, dtype=q.dtype, device=q.device)
    sizes, (head, tail) = tuned("attention", q.device, bytes=q.element_size(), width=max(Q, V)), halves(Q)
    attend[triton.cdiv(T * (H // N), sizes["ROWS"]), N](
        q, k, v, sinks_H, None if seen_TS is None else seen_TS.contiguous(), out_THV, T, S, H, *q.stride()[:2], *k.stride()[:2],
        *v.stride()[:2], scale * LOG2E, G=H // N, Q=Q, V=V, HEAD=head, TAIL=tail, VALUE=max(16, triton.next_power_of_2(V)),
        **sizes,
    )  # fmt: skip
    return out_THV


def refuses(site: Site, machine: Any) -> str | None:
    if max(site.Q, site.V) > 256:
        return "heads are wider than 256"
    return unlaunchable(site, machine)


IMPL = Impl(op="attention", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = tuple(
    Build(sizes={"T": 4096, "before": 0, "H": H, "N": N, "Q": Q, "V": 128}) for H, N, Q in ((64, 8, 128), (128, 128, 192))
)
