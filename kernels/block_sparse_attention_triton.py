"""Block-sparse attention: one program gathers a part of one token's chosen blocks for all heads that share a key head, and reads no others.

Chosen blocks are sorted first, because one that is named twice counts once. Where tokens are few, what a token has chosen is cut into parts
that are joined by the logarithms of their sums. Scores and sums in float32; products of float32 in six of bfloat16.
"""

from __future__ import annotations

from typing import Any

from day0.kernels.tiles.runs import once
from day0.kernels.tiles.softmax import LOG2E, divide, fold, joined, put, results
from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import tl, triton
from day0.spec.ops import Impl, Site
from day0.spec.tuning import tuned

GROUP = 32  # query heads that share a key head


@triton.jit
def attend(
    q, k_pages, v_pages, chosen, sequences, positions, table, out, sums, q_token, q_head, columns, parts, length, scale, H: tl.constexpr,
    N: tl.constexpr, Q: tl.constexpr, V: tl.constexpr, K: tl.constexpr, SPAN: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr,
    KEYS: tl.constexpr, HEAD: tl.constexpr, VALUE: tl.constexpr,
):  # fmt: skip
    G: tl.constexpr = H // N
    token, n, part = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    row, d, e = tl.arange(0, ROWS), tl.arange(0, HEAD), tl.arange(0, VALUE)
    real, head = row < G, n * G + row
    query = q + token * q_token + (head * q_head)[:, None] + d[None, :]
    query = tl.load(query, mask=real[:, None] & (d < Q)[None, :], other=0.0)
    pages, at = table + tl.load(sequences + token) * columns, tl.load(positions + token)
    best, total = tl.full([ROWS], float("-inf"), tl.float32), tl.zeros([ROWS], tl.float32)
    acc = tl.zeros([ROWS, VALUE], tl.float32)
    end = tl.minimum(part * length + length, K * SPAN)
    for start in range(part * length, end, KEYS):
        j = start + tl.arange(0, KEYS)
        block = tl.load(chosen + (token * N + n) * K + j // SPAN, mask=j < end, other=-1)
        s = block * SPAN + j % SPAN
        there = (block >= 0) & (s <= at)
        entry = (tl.load(pages + s // WIDTH, mask=there, other=0) * WIDTH + s % WIDTH) * N + n
        key = tl.load(k_pages + (entry * Q)[None, :] + d[:, None], mask=there[None, :] & (d < Q)[:, None], other=0.0)
        scores = tl.where(there[None, :], tl.dot(query, key, input_precision="bf16x6") * scale, float("-inf"))
        weights, fade, best, total = fold(scores, best, total)
        value = tl.load(v_pages + (entry * V)[:, None] + e[None, :], mask=there[:, None] & (e < V)[None, :], other=0.0)
        acc = tl.dot(weights.to(value.dtype), value, acc * fade[:, None], input_precision="bf16x6")
    put(out, sums, (token * H + head) * parts + part, real, e, V, acc, best, total)


def launch(q_THQ: Any, k_pages: Any, v_pages: Any, segment: Any, chosen_TNK: Any, block: int, scale: float) -> Any:
    (T, H, Q), (_, width, N, V), K, device = q_THQ.shape, v_pages.shape, chosen_TNK.shape[2], q_THQ.device
    q_THQ = q_THQ if q_THQ.stride(2) == 1 else q_THQ.contiguous()
    sizes = dict(tuned("block_sparse_attention", device, bytes=q_THQ.element_size()))
    sizes["ROWS"] = max(16, triton.next_power_of_2(H // N))
    parts = divide(T * N, K * block)
    out, partial, sums = results(q_THQ, V, parts)
    attend[T, N, parts](
        q_THQ, k_pages, v_pages, once(chosen_TNK), segment.sequences_T, segment.positions_T, segment.table_BP, partial, sums,
        *q_THQ.stride()[:2], segment.table_BP.shape[1], parts, triton.cdiv(K * block, parts), scale * LOG2E, H=H, N=N, Q=Q, V=V, K=K,
        SPAN=block, WIDTH=width, HEAD=max(16, triton.next_power_of_2(Q)),
        VALUE=max(16, triton.next_power_of_2(V)), **sizes,
    )  # fmt: skip
    return joined(out, partial, sums)


def refuses(site: Site, machine: Any) -> str | None:
    if site.H > GROUP * site.N:
        return f"more than {GROUP} heads share a key head"
    if max(site.Q, site.V) > 256:
        return "heads are wider than 256"
    return unlaunchable(site, machine)


IMPL = Impl(op="block_sparse_attention", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = (Build(sizes={"queries": (1,), "before": (8191,), "H": 64, "N": 4, "Q": 128, "V": 128, "K": 16, "block": 128}),)
