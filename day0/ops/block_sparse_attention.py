"""Causal attention over paged keys and values in which each query reads chosen blocks of tokens, for each key head its own (MiniMax-M3)."""

from typing import Any

from day0.ops.paged_attention import scatter
from day0.spec.cases import Draw, cases
from day0.spec.lazy import torch, wide
from day0.spec.ops import Budget, Cost, Op, Site
from day0.spec.state import PAGED
from day0.spec.step import Segment


def block_sparse_attention(
    q_THQ: "torch.Tensor", k_pages: "torch.Tensor", v_pages: "torch.Tensor", segment: Segment, chosen_TNK: "torch.Tensor", block: int,
    scale: float,
) -> "torch.Tensor":  # fmt: skip
    """→ [T, H, V]. `chosen_TNK` are blocks of `block` positions, -1 for none; each query finds a token it may see in at least one of them.

    Pages are [pages, tokens in a page, N, Q or V]; query head h reads key head h // (H / N).
    """
    outputs, start = [], 0
    for b, count in enumerate(segment.queries):
        rows = slice(start, start + count)
        k_SNQ, v_SNV = (wide(segment.entries(pages, b, PAGED)) for pages in (k_pages, v_pages))
        place_S = torch.arange(len(k_SNQ), device=k_SNQ.device)
        read_TNS = chosen(chosen_TNK[rows], -(-len(k_SNQ) // block)).repeat_interleave(block, dim=-1)[..., : len(k_SNQ)]
        read_TNS = read_TNS & (place_S <= segment.positions_T[rows, None, None])
        q_TNGQ = wide(q_THQ[rows]).unflatten(1, (k_SNQ.shape[1], -1))
        scores_TNGS = torch.einsum("tngq,snq->tngs", q_TNGQ, k_SNQ) * scale
        weights_TNGS = scores_TNGS.masked_fill(~read_TNS[:, :, None], float("-inf")).softmax(-1)
        outputs.append(torch.einsum("tngs,snv->tngv", weights_TNGS, v_SNV).flatten(1, 2))
        start += count
    return torch.cat(outputs).to(q_THQ.dtype)


def chosen(numbers_K: "torch.Tensor", count: int) -> "torch.Tensor":
    """[…, K] numbers → […, count] whether each is among them; those below 0 or from `count` on are none."""
    none = (numbers_K < 0) | (numbers_K >= count)
    found = torch.zeros(*numbers_K.shape[:-1], count + 1, dtype=torch.bool, device=numbers_K.device)
    return found.scatter(-1, numbers_K.masked_fill(none, count), True)[..., :count]


def make(
    draw: Draw, queries: tuple[int, ...], before: tuple[int, ...], H: int, N: int, Q: int, V: int, K: int, block: int, scattered: bool
) -> dict[str, Any]:
    segment, pages = scatter(draw, queries, before, scattered)
    T = sum(queries)
    others_TNK = torch.randint(-1, segment.longest // block + 1, (T, N, K), generator=draw.generator)
    others_TNK[..., 0] = segment.positions_T[:, None] // block
    return {
        "q_THQ": draw.normal(T, H, Q), "k_pages": draw.normal(pages, 16, N, Q), "v_pages": draw.normal(pages, 16, N, V),
        "segment": segment, "chosen_TNK": others_TNK, "block": block, "scale": Q**-0.5,
    }  # fmt: skip


def cost(site: Site) -> Cost:
    read = min(site.S, site.K * site.options["block"])
    return Cost(flops=2 * site.T * read * site.H * (site.Q + site.V), bytes=2 * (read * site.N + site.T * site.H) * (site.Q + site.V))


OP = Op(
    name="block_sparse_attention", reference=block_sparse_attention, layer="domain",
    inputs={"q": "THQ", "k_pages": "PSNQ", "v_pages": "PSNV", "chosen": "TNK"}, outputs={"o": "THV"},
    budget=Budget(rounds=2, accumulations=64, special=8), cost=cost,
    instead="paged_attention gives the same while a sequence holds no more than {K} blocks of tokens",
    cases=cases(
        make, queries=((1,), (1, 1, 1), (7, 1, 40)), before=((0, 0, 0), (63, 0, 130)), H=(6,), N=(1, 3), Q=(40,), V=(40, 24),
        K=(1, 4), block=(5,), scattered=(False, True),
    ),
)  # fmt: skip
