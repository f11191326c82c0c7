"""Sparse latent attention that gathers the chosen entries of a few tokens at a time and reads no others."""

from typing import Any

from day0.spec.lazy import torch, wide
from day0.spec.ops import Impl, Site

ELEMENTS = 1 << 23  # of gathered entries that are held at once


def launch(q_THC: Any, q_THR: Any, pages: Any, segment: Any, indices_TK: Any, scale: float) -> Any:
    T, _, C = q_THC.shape
    entries, K = pages.flatten(0, 1), indices_TK.shape[1]
    places_TK = segment.places(indices_TK.clamp(min=0), pages.shape[1])
    q_TH = wide(torch.cat((q_THC, q_THR), dim=-1)) * scale
    o_THC = torch.empty_like(q_THC)
    step = max(1, ELEMENTS // (K * entries.shape[1]))
    for start in range(0, T, step):
        rows = slice(start, start + step)
        chosen_TK = wide(entries[places_TK[rows]])
        scores_THK = torch.bmm(q_TH[rows], chosen_TK.transpose(1, 2))
        weights_THK = scores_THK.masked_fill_(indices_TK[rows, None] < 0, float("-inf")).softmax(-1)
        o_THC[rows] = torch.bmm(weights_THK, chosen_TK[..., :C]).to(o_THC.dtype)
    return o_THC


def refuses(site: Site, machine: Any) -> str | None:
    return None


IMPL = Impl(op="sparse_latent_attention", provider="torch", fn=launch, refuses=refuses, status="composite")
