"""Causal softmax attention of one sequence (arXiv 1706.03762), with grouped heads (arXiv 2305.13245)."""

from typing import Any

from day0.spec.cases import Draw, cases
from day0.spec.lazy import torch, wide
from day0.spec.ops import Budget, Cost, Op, Site


def attention(
    q_THQ: "torch.Tensor", k_SNQ: "torch.Tensor", v_SNV: "torch.Tensor", scale: float, sinks_H: "torch.Tensor | None" = None,
    seen_TS: "torch.Tensor | None" = None,
) -> "torch.Tensor":  # fmt: skip
    """→ [T, H, V]. The T queries are the last T of the S tokens; query head h reads key head h // (H / N).

    `sinks_H`: one more score of each head, which takes its share of the softmax and has no value. `seen_TS`: the keys that each query sees;
    None: those up to itself.
    """
    T, H, _ = q_THQ.shape
    S, N, _ = k_SNQ.shape
    k_SHQ, v_SHV = (wide(x).repeat_interleave(H // N, dim=1) for x in (k_SNQ, v_SNV))
    scores_HTS = torch.einsum("thq,shq->hts", wide(q_THQ), k_SHQ) * scale
    seen = torch.ones(T, S, dtype=torch.bool, device=q_THQ.device).tril(S - T) if seen_TS is None else seen_TS
    scores_HTS = scores_HTS.masked_fill(~seen, float("-inf"))
    if sinks_H is not None:
        scores_HTS = torch.cat((scores_HTS, wide(sinks_H)[:, None, None].expand(H, T, 1)), dim=-1)
    weights_HTS = scores_HTS.softmax(-1)[..., :S]
    return torch.einsum("hts,shv->thv", weights_HTS, v_SHV).to(q_THQ.dtype)


def make(draw: Draw, T: int, before: int, H: int, N: int, Q: int, V: int) -> dict[str, Any]:
    S = T + before
    return {"q_THQ": draw.normal(T, H, Q), "k_SNQ": draw.normal(S, N, Q), "v_SNV": draw.normal(S, N, V), "scale": Q**-0.5}


def cost(site: Site) -> Cost:
    pairs = site.T * site.S
    return Cost(flops=2 * pairs * site.H * (site.Q + site.V), bytes=2 * (site.S * site.N + site.T * site.H) * (site.Q + site.V))


OP = Op(
    name="attention", reference=attention, inputs={"q": "THQ", "k": "SNQ", "v": "SNV"}, outputs={"o": "THV"}, layer="base",
    cases=cases(make, T=(1, 5, 63), before=(0, 100), H=(6,), N=(1, 2, 6), Q=(24, 64), V=(64, 20)),
    budget=Budget(rounds=2, accumulations=64, special=8), cost=cost,
)  # fmt: skip
