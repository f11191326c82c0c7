"""Attention over pages and rings: one program reads a stretch of one sequence's keys for a tile of queries and all heads that share a key head.

A tile's rows are (token, head) pairs, so that decode, where there is one token, fills a matrix product with heads. Where tiles are few and
sequences long, a sequence is cut into parts that are joined by the logarithms of their sums (Flash-Decoding). Scores and sums in float32;
products of float32 in six of bfloat16.
"""

from __future__ import annotations

from typing import Any

from day0.kernels.tiles.runs import halves, runs
from day0.kernels.tiles.softmax import LOG2E, divide, fold, joined, put, results
from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import tl, triton
from day0.spec.ops import Impl, Site
from day0.spec.tuning import tuned

GROUP = 128  # query heads that share a key head


@triton.jit
def attend(
    q, k_pages, v_pages, sinks, tiles, table, out, sums, q_token, q_head, columns, parts, scale, H: tl.constexpr, N: tl.constexpr,
    Q: tl.constexpr, V: tl.constexpr, WIDTH: tl.constexpr, RING: tl.constexpr, WINDOW: tl.constexpr, CHUNKED: tl.constexpr,
    ROWS: tl.constexpr, KEYS: tl.constexpr, HEAD: tl.constexpr, TAIL: tl.constexpr, VALUE: tl.constexpr,
):  # fmt: skip
    G: tl.constexpr = H // N
    n, part = tl.program_id(1), tl.program_id(2)
    tile = tiles + tl.program_id(0) * 4
    place, first, count, position = tl.load(tile), tl.load(tile + 1), tl.load(tile + 2), tl.load(tile + 3)
    row = tl.arange(0, ROWS)
    real, at = row < count * G, position + row // G
    token, head = (first + row // G).to(tl.int64), n * G + row % G
    d, e, t = tl.arange(0, HEAD), tl.arange(0, VALUE), HEAD + tl.arange(0, TAIL if TAIL else 1)
    query = q + (token * q_token + head * q_head)[:, None]
    q_main = tl.load(query + d[None, :], mask=real[:, None] & (d < Q)[None, :], other=0.0)
    if TAIL:
        q_tail = tl.load(query + t[None, :], mask=real[:, None] & (t < Q)[None, :], other=0.0)
    low, high = 0, position + count
    if RING:
        low = position // WINDOW * WINDOW if CHUNKED else tl.maximum(position - WINDOW + 1, 0)
    begin = low + part * (tl.cdiv(tl.cdiv(high - low, parts), KEYS) * KEYS)
    end = tl.minimum(begin + tl.cdiv(tl.cdiv(high - low, parts), KEYS) * KEYS, high)
    best, total = tl.full([ROWS], float("-inf"), tl.float32), tl.zeros([ROWS], tl.float32)
    if sinks is not None:
        sink = tl.load(sinks + head, mask=real, other=0.0).to(tl.float32) * 1.4426950408889634
        best, total = tl.where(part == 0, sink, best), tl.where(part == 0, total + 1.0, total)
    acc = tl.zeros([ROWS, VALUE], tl.float32)
    for start in range(begin, end, KEYS):
        s = start + tl.arange(0, KEYS)
        there = s < end
        if RING:
            entry = place.to(tl.int64) * WIDTH + s % WIDTH
        else:
            entry = tl.load(table + place * columns + s // WIDTH, mask=there, other=0) * WIDTH + s % WIDTH
        key = k_pages + ((entry * N + n) * Q)[None, :]
        scores = tl.dot(q_main, tl.load(key + d[:, None], mask=there[None, :] & (d < Q)[:, None], other=0.0), input_precision="bf16x6")
        if TAIL:
            k_tail = tl.load(key + t[:, None], mask=there[None, :] & (t < Q)[:, None], other=0.0)
            scores = tl.dot(q_tail, k_tail, scores, input_precision="bf16x6")
        seen = there[None, :] & (s[None, :] <= at[:, None])
        if RING:
            seen = seen & (s[None, :] >= (at // WINDOW * WINDOW if CHUNKED else at - WINDOW + 1)[:, None])
        scores = tl.where(seen, scores * scale, float("-inf"))
        weights, fade, best, total = fold(scores, best, total)
        value = tl.load(v_pages + ((entry * N + n) * V)[:, None] + e[None, :], mask=there[:, None] & (e < V)[None, :], other=0.0)
        acc = tl.dot(weights.to(value.dtype), value, acc * fade[:, None], input_precision="bf16x6")
    put(out, sums, (token * H + head) * parts + part, real, e, V, acc, best, total)


def launch(
    q_THQ: Any, k_pages: Any, v_pages: Any, segment: Any, scale: float, sinks_H: Any = None, window: int | None = None,
    chunked: bool = False,
) -> Any:  # fmt: skip
    (_, H, Q), (_, width, N, V), ring, device = q_THQ.shape, v_pages.shape, window is not None, q_THQ.device
    q_THQ, most = q_THQ if q_THQ.stride(2) == 1 else q_THQ.contiguous(), max(segment.queries)
    sizes = dict(tuned("paged_attention", device, queries=most, bytes=q_THQ.element_size(), width=max(Q, V)))
    sizes["ROWS"] = max(sizes["ROWS"], triton.next_power_of_2(H // N))
    tiles, (head, tail) = runs(segment, sizes["ROWS"] // (H // N), device, ring), halves(Q)
    parts = divide(len(tiles) * N, segment.longest if window is None else min(segment.longest, window + most))
    out, partial, sums = results(q_THQ, V, parts)
    attend[len(tiles), N, parts](
        q_THQ, k_pages, v_pages, sinks_H, tiles, segment.table_BP, partial, sums, *q_THQ.stride()[:2], segment.table_BP.shape[1],
        parts, scale * LOG2E, H=H, N=N, Q=Q, V=V, WIDTH=width, RING=ring, WINDOW=window or 1, CHUNKED=chunked, HEAD=head, TAIL=tail,
        VALUE=max(16, triton.next_power_of_2(V)), **sizes,
    )  # fmt: skip
    return joined(out, partial, sums)


def refuses(site: Site, machine: Any) -> str | None:
    if site.H > GROUP * site.N:
        return f"more than {GROUP} heads share a key head"
    if max(site.Q, site.V) > 256:
        return "heads are wider than 256"
    return unlaunchable(site, machine)


IMPL = Impl(op="paged_attention", provider="triton", fn=launch, refuses=refuses, status="compiled")
STEP, CHUNK = {"queries": (1,), "before": (8191,)}, {"queries": (2048,), "before": (2048,)}
BUILDS = (
    Build(sizes=STEP | {"H": 64, "N": 8, "Q": 128, "V": 128}),
    Build(sizes=CHUNK | {"H": 64, "N": 8, "Q": 128, "V": 128}),
    Build(sizes=CHUNK | {"H": 64, "N": 8, "Q": 64, "V": 64, "kind": "window", "sinks": True}),
    Build(sizes=CHUNK | {"H": 64, "N": 4, "Q": 192, "V": 128}),
    Build(sizes=STEP | {"H": 32, "N": 8, "Q": 128, "V": 128}, dtype="float32"),
)
