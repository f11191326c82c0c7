"""Attention in latent space: every head reads the same latent and the same rotated key (absorbed form of arXiv 2405.04434, §2.1.2)."""

from typing import Any

from day0.ops.paged_attention import scatter
from day0.spec.cases import Draw, cases
from day0.spec.lazy import torch, wide
from day0.spec.ops import Budget, Cost, Op, Site
from day0.spec.state import PAGED
from day0.spec.step import Segment


def latent_attention(
    q_THC: "torch.Tensor", q_THR: "torch.Tensor", pages: "torch.Tensor", segment: Segment, scale: float
) -> "torch.Tensor":
    """→ [T, H, C], the attended latents. Pages are [pages, tokens in a page, C + R]: latent, then rotated key."""
    C = q_THC.shape[-1]
    q_TH = wide(torch.cat((q_THC, q_THR), dim=-1))
    outputs, start = [], 0
    for b, count in enumerate(segment.queries):
        entries_S = wide(segment.entries(pages, b, PAGED))
        S = entries_S.shape[0]
        scores_HTS = torch.einsum("thc,sc->hts", q_TH[start : start + count], entries_S) * scale
        later = torch.ones(count, S, dtype=torch.bool, device=pages.device).triu(S - count + 1)
        weights_HTS = scores_HTS.masked_fill(later, float("-inf")).softmax(-1)
        outputs.append(torch.einsum("hts,sc->thc", weights_HTS, entries_S[:, :C]))
        start += count
    return torch.cat(outputs).to(q_THC.dtype)


def make(draw: Draw, queries: tuple[int, ...], before: tuple[int, ...], H: int, C: int, R: int, scattered: bool) -> dict[str, Any]:
    segment, pages = scatter(draw, queries, before, scattered)
    q_THC, q_THR = draw.normal(sum(queries), H, C), draw.normal(sum(queries), H, R)
    return {"q_THC": q_THC, "q_THR": q_THR, "pages": draw.normal(pages, 16, C + R), "segment": segment, "scale": (C + R) ** -0.5}


def cost(site: Site) -> Cost:
    pairs, entry = site.T * site.S, site.C + site.R
    return Cost(flops=2 * pairs * site.H * (entry + site.C), bytes=2 * (site.S * entry + site.T * site.H * (entry + site.C)))


OP = Op(
    name="latent_attention", reference=latent_attention, inputs={"q_latent": "THC", "q_rotary": "THR", "pages": "PS(C+R)"},
    outputs={"o": "THC"}, layer="domain", budget=Budget(rounds=2, accumulations=64, special=8), cost=cost,
    cases=cases(make, queries=((1,), (1, 1, 1)), before=((0, 0, 0), (63, 0, 130)), H=(1, 6), C=(28, 64), R=(12,), scattered=(False, True)),
)  # fmt: skip
