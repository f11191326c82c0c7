"""One softmax over a window of tokens, compressed entries and a sink; what is a key is a value at once (DeepSeek-V4, §2.3).

A query sees the tokens of its window up to itself, and those entries that were complete at its position and, where a choice was made, were
chosen for it. A sink is a logit that takes part in the softmax and stands for no value.
"""

from typing import Any

from day0.ops.block_sparse_attention import chosen
from day0.ops.paged_attention import scatter
from day0.spec.cases import Draw, cases
from day0.spec.lazy import torch, wide
from day0.spec.ops import Budget, Cost, Op, Site
from day0.spec.step import Segment


def compressed_attention(
    q_THQ: "torch.Tensor", ring: "torch.Tensor", pool: "torch.Tensor | None", segment: Segment, window: int, every: int,
    sinks_H: "torch.Tensor", scale: float, chosen_TK: "torch.Tensor | None" = None,
) -> "torch.Tensor":  # fmt: skip
    """→ [T, H, Q]. `ring` is [sequences, ring, Q], `pool` [pages, entries, Q] or None; `chosen_TK` None takes all entries, -1 none."""
    outputs, start = [], 0
    for b, count in enumerate(segment.queries):
        rows = slice(start, start + count)
        at_T = segment.positions_T[rows, None]
        group = ("window", 1, window)
        keys_SQ = segment.entries(ring, b, group)
        place_S = torch.arange(len(keys_SQ), device=ring.device) + segment.first(b, group)
        seen_TS = (place_S <= at_T) & (place_S > at_T - window)
        if pool is not None:
            entries_NQ = segment.entries(pool, b, ("compressed", every, None))
            number_N = torch.arange(len(entries_NQ), device=pool.device)
            seen_TN = number_N < (at_T + 1) // every
            if chosen_TK is not None:
                seen_TN &= chosen(chosen_TK[rows], len(entries_NQ))
            keys_SQ, seen_TS = torch.cat((keys_SQ, entries_NQ)), torch.cat((seen_TS, seen_TN), dim=-1)
        outputs.append(attend(wide(q_THQ[rows]), wide(keys_SQ), seen_TS, wide(sinks_H), scale))
        start += count
    return torch.cat(outputs).to(q_THQ.dtype)


def attend(
    q_THQ: "torch.Tensor", keys_SQ: "torch.Tensor", seen_TS: "torch.Tensor", sinks_H: "torch.Tensor", scale: float
) -> "torch.Tensor":
    """→ [T, H, Q]: softmax over what each query sees and its head's sink, applied to the keys."""
    scores_THS = torch.einsum("thq,sq->ths", q_THQ, keys_SQ) * scale
    scores_THS = scores_THS.masked_fill(~seen_TS[:, None], float("-inf"))
    sink_TH1 = sinks_H.to(scores_THS.dtype)[None, :, None].expand(len(q_THQ), -1, -1)
    weights_THS = torch.cat((scores_THS, sink_TH1), dim=-1).softmax(-1)[..., :-1]
    return torch.einsum("ths,sq->thq", weights_THS, keys_SQ)


def make(draw: Draw, queries: tuple[int, ...], before: tuple[int, ...], H: int, Q: int, kind: str, scattered: bool) -> dict[str, Any]:
    segment, pages = scatter(draw, queries, before, scattered)
    window, every = 9, 0 if kind == "window" else 4
    numbers = None
    if kind == "chosen":
        numbers = torch.randint(-1, max(segment.lengths) // 4 + 1, (sum(queries), 5), generator=draw.generator)
    return {
        "q_THQ": draw.normal(sum(queries), H, Q),
        "ring": draw.normal(len(queries), window - 1 + 64, Q),
        "pool": draw.normal(pages, 4, Q) if every else None,
        "segment": segment,
        "window": window,
        "every": every,
        "sinks_H": draw.normal(H, dtype=torch.float32),
        "scale": Q**-0.5,
        "chosen_TK": numbers,
    }


def cost(site: Site) -> Cost:
    entries = site.S / site.options["every"] if site.options.get("every") else 0
    read = min(site.options["window"], site.S) + min(site.sizes.get("K") or entries, entries)
    return Cost(flops=4 * site.T * read * site.H * site.Q, bytes=2 * site.Q * (read + 2 * site.T * site.H))


OP = Op(
    name="compressed_attention", reference=compressed_attention,
    inputs={"q": "THQ", "ring": "BSQ", "pool": "PNQ", "sinks": "H", "chosen": "TK"}, outputs={"o": "THQ"}, layer="domain",
    budget=Budget(rounds=2, accumulations=64, special=8), cost=cost,
    cases=cases(
        make, queries=((1,), (1, 1, 1), (7, 1, 40)), before=((0, 0, 0), (63, 0, 130)), H=(6,), Q=(24, 64), kind=("window", "all", "chosen"),
        scattered=(False, True),
    ),
)  # fmt: skip
