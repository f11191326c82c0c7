"""Compressed attention: one program reads a part of one token's window and entries for a tile of heads, each key once as key and value.

Keys count on from the oldest position of the window to the last entry. Where tokens are few, they are cut into parts that are joined by the
logarithms of their sums. Chosen entries are sorted first, because one that is named twice counts once. Scores and sums in float32;
products of float32 in six of bfloat16.
"""

from __future__ import annotations

from typing import Any

from day0.kernels.tiles.runs import once
from day0.kernels.tiles.softmax import LOG2E, divide, fold, joined, put, results
from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import tl, torch, triton
from day0.spec.ops import Impl, Site
from day0.spec.tuning import tuned


@triton.jit
def step(query, keys, seen, best, total, acc, scale):
    """Running maximum, sum and result once more keys are seen; keys are values."""
    scores = tl.dot(query, tl.trans(keys), input_precision="bf16x6")
    scores = tl.where(seen[None, :], scores * scale, float("-inf"))
    weights, fade, best, total = fold(scores, best, total)
    acc = tl.dot(weights.to(keys.dtype), keys, acc * fade[:, None], input_precision="bf16x6")
    return best, total, acc


@triton.jit
def attend(
    q, ring, pool, sinks, chosen, places, table, out, sums, q_token, q_head, K, columns, parts, length, window, every, scale,
    H: tl.constexpr, Q: tl.constexpr, RING: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr, HEAD: tl.constexpr,
):  # fmt: skip
    token, part = tl.program_id(0).to(tl.int64), tl.program_id(2)
    head, d = tl.program_id(1) * ROWS + tl.arange(0, ROWS), tl.arange(0, HEAD)
    real, inside = head < H, (d < Q)[None, :]
    query = tl.load(q + token * q_token + (head * q_head)[:, None] + d[None, :], mask=real[:, None] & inside, other=0.0)
    sequence, slot, at = tl.load(places + token * 3), tl.load(places + token * 3 + 1), tl.load(places + token * 3 + 2)
    best, total = tl.full([ROWS], float("-inf"), tl.float32), tl.zeros([ROWS], tl.float32)
    if part == 0:
        best = tl.load(sinks + head, mask=real, other=0.0).to(tl.float32) * 1.4426950408889634
        total += 1.0
    acc = tl.zeros([ROWS, HEAD], tl.float32)
    begin = part * length
    end = begin + length
    for start in range(begin, tl.minimum(end, window), KEYS):
        j = start + tl.arange(0, KEYS)
        s = at - window + 1 + j
        seen = (s >= 0) & (j < window) & (j < end)
        keys = tl.load(ring + ((slot * RING + s % RING) * Q)[:, None] + d[None, :], mask=seen[:, None] & inside, other=0.0)
        best, total, acc = step(query, keys, seen, best, total, acc, scale)
    if pool is not None:
        for start in range(tl.maximum(begin - window, 0), tl.minimum(end - window, K), KEYS):
            j = start + tl.arange(0, KEYS)
            number, seen = j.to(tl.int64), (j < end - window) & (j < K)
            if chosen is not None:
                number = tl.load(chosen + token * K + j, mask=seen, other=-1)
            seen = seen & (number >= 0) & (number < (at + 1) // every)
            place = tl.load(table + sequence * columns + number // WIDTH, mask=seen, other=0) * WIDTH + number % WIDTH
            keys = tl.load(pool + (place * Q)[:, None] + d[None, :], mask=seen[:, None] & inside, other=0.0)
            best, total, acc = step(query, keys, seen, best, total, acc, scale)
    put(out, sums, (token * H + head) * parts + part, real, d, Q, acc, best, total)


def launch(
    q_THQ: Any, ring: Any, pool: Any, segment: Any, window: int, every: int, sinks_H: Any, scale: float, chosen_TK: Any = None
) -> Any:
    (T, H, Q), device = q_THQ.shape, q_THQ.device
    q_THQ = q_THQ if q_THQ.stride(2) == 1 else q_THQ.contiguous()
    sizes = tuned("compressed_attention", device, heads=H, bytes=q_THQ.element_size())
    K = 0 if pool is None else segment.longest // every if chosen_TK is None else chosen_TK.shape[1]
    blocks = triton.cdiv(H, sizes["ROWS"])
    parts = divide(T * blocks, window + K)
    out, partial, sums = results(q_THQ, Q, parts)
    attend[T, blocks, parts](
        q_THQ, ring, pool, sinks_H, None if chosen_TK is None or pool is None else once(chosen_TK), places(segment, device),
        segment.table_BP, partial, sums, *q_THQ.stride()[:2], K, segment.table_BP.shape[1], parts, triton.cdiv(window + K, parts),
        window, max(1, every), scale * LOG2E, H=H, Q=Q, RING=ring.shape[1], WIDTH=1 if pool is None else pool.shape[1],
        HEAD=max(16, triton.next_power_of_2(Q)), **sizes,
    )  # fmt: skip
    return joined(out, partial, sums)


def places(segment: Any, device: Any) -> Any:
    """[T, 3] int64: row of the table, slot and position of each token; made once a step."""
    if "places" not in segment.shared:
        slots_T = torch.tensor(segment.slots, device=segment.sequences_T.device)[segment.sequences_T]
        segment.shared["places"] = torch.stack((segment.sequences_T, slots_T, segment.positions_T), dim=1).to(device)
    return segment.shared["places"]


def refuses(site: Site, machine: Any) -> str | None:
    if site.dtype == "float32" and site.Q > 128:
        return "keys of float32 wider than 128 do not fit the registers of a block"
    if site.Q > 512:
        return "keys are wider than 512"
    return unlaunchable(site, machine)


IMPL = Impl(op="compressed_attention", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = (
    Build(sizes={"queries": (1,), "before": (8191,), "H": 64, "Q": 512, "kind": "all"}),
    Build(sizes={"queries": (64,), "before": (8192,), "H": 128, "Q": 512, "kind": "chosen"}),
)
