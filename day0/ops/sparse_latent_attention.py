"""Attention in latent space where each query reads chosen tokens only (arXiv 2512.02556, §2.1; absorbed form of arXiv 2405.04434)."""

from typing import Any

from day0.ops.index_select import index_select
from day0.ops.paged_attention import scatter
from day0.spec.cases import Draw, cases
from day0.spec.lazy import torch, wide
from day0.spec.ops import Budget, Cost, Op, Site
from day0.spec.state import PAGED
from day0.spec.step import Segment


def sparse_latent_attention(
    q_THC: "torch.Tensor", q_THR: "torch.Tensor", pages: "torch.Tensor", segment: Segment, indices_TK: "torch.Tensor", scale: float
) -> "torch.Tensor":
    """→ [T, H, C], the attended latents. Pages are [pages, tokens in a page, C + R]: latent, then rotated key.

    `indices_TK` are positions that each token reads, none of them later than itself; -1 is none, and each token reads at least one.
    """
    C = q_THC.shape[-1]
    q_TH = wide(torch.cat((q_THC, q_THR), dim=-1))
    outputs, start = [], 0
    for b, count in enumerate(segment.queries):
        entries_S = wide(segment.entries(pages, b, PAGED))
        chosen_TK = indices_TK[start : start + count]
        read_TS = torch.zeros(count, entries_S.shape[0] + 1, dtype=torch.bool, device=pages.device)
        read_TS = read_TS.scatter(1, chosen_TK.where(chosen_TK >= 0, entries_S.shape[0]), True)[:, :-1]
        scores_THS = torch.einsum("thc,sc->ths", q_TH[start : start + count], entries_S) * scale
        weights_THS = scores_THS.masked_fill(~read_TS[:, None], float("-inf")).softmax(-1)
        outputs.append(torch.einsum("ths,sc->thc", weights_THS, entries_S[:, :C]))
        start += count
    return torch.cat(outputs).to(q_THC.dtype)


def make(
    draw: Draw, queries: tuple[int, ...], before: tuple[int, ...], H: int, C: int, R: int, K: int, scattered: bool
) -> dict[str, Any]:
    segment, pages = scatter(draw, queries, before, scattered)
    T = sum(queries)
    scores_TS = torch.randn(T, segment.longest, generator=draw.generator)
    later_TS = torch.arange(segment.longest) > segment.positions_T[:, None]
    return {
        "q_THC": draw.normal(T, H, C), "q_THR": draw.normal(T, H, R), "pages": draw.normal(pages, 16, C + R), "segment": segment,
        "indices_TK": index_select(scores_TS.masked_fill(later_TS, float("-inf")), K), "scale": (C + R) ** -0.5,
    }  # fmt: skip


def cost(site: Site) -> Cost:
    pairs, entry = site.T * min(site.K, site.S), site.C + site.R
    return Cost(flops=2 * pairs * site.H * (entry + site.C), bytes=2 * (pairs * entry + site.T * site.H * (entry + site.C)))


OP = Op(
    name="sparse_latent_attention", reference=sparse_latent_attention, layer="domain",
    inputs={"q_latent": "THC", "q_rotary": "THR", "pages": "PS(C+R)", "indices": "TK"}, outputs={"o": "THC"},
    budget=Budget(rounds=2, accumulations=64, special=8), cost=cost,
    instead="latent_attention gives the same while a sequence holds no more than {K} tokens",
    cases=cases(
        make, queries=((1,), (1, 1, 1), (7, 1, 40)), before=((0, 0, 0), (63, 0, 130)), H=(1, 6), C=(28,), R=(12,), K=(1, 9, 64),
        scattered=(False, True),
    ),
)  # fmt: skip
