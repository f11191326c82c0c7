"""Linear attention whose heads forget at fixed rates (Lightning Attention-2, arXiv 2401.04658; MiniMax-01, arXiv 2501.08313, §2.2)."""

from typing import Any

from day0.spec.cases import Draw, cases
from day0.spec.lazy import torch, wide
from day0.spec.ops import Budget, Cost, Op, Site


def lightning_attention(
    q_THQ: "torch.Tensor", k_THQ: "torch.Tensor", v_THV: "torch.Tensor", slopes: tuple[float, ...], state_BHQV: "torch.Tensor",
    queries: tuple[int, ...],
) -> "tuple[torch.Tensor, torch.Tensor]":  # fmt: skip
    """→ ([T, H, V], new state). For each token: S ← exp(-slope) S + k vᵀ; o = qᵀS. There is one slope a head."""
    q, k, v, T = wide(q_THQ), wide(k_THQ), wide(v_THV), len(q_THQ)
    keep_H = torch.tensor(slopes, dtype=q.dtype, device=q.device).neg().exp()[:, None, None]
    outputs, states = [], []
    for rows, S_HQV in zip(torch.arange(T).split(queries), state_BHQV.to(q.dtype), strict=True):
        for t in rows.tolist():
            S_HQV = keep_H * S_HQV + torch.einsum("hq,hv->hqv", k[t], v[t])
            outputs.append(torch.einsum("hq,hqv->hv", q[t], S_HQV))
        states.append(S_HQV)
    return torch.stack(outputs).to(v_THV.dtype), torch.stack(states)


def make(draw: Draw, queries: tuple[int, ...], H: int, Q: int, V: int) -> dict[str, Any]:
    T = sum(queries)
    state = draw.normal(len(queries), H, Q, V, dtype=torch.float64 if draw.dtype == torch.float64 else torch.float32)
    return {
        "q_THQ": draw.normal(T, H, Q), "k_THQ": draw.normal(T, H, Q), "v_THV": draw.normal(T, H, V),
        "slopes": tuple(2.0 ** (-8 * (h + 1) / H) for h in range(H)), "state_BHQV": state, "queries": queries,
    }  # fmt: skip


def cost(site: Site) -> Cost:
    cells = site.H * site.Q * site.V
    return Cost(flops=5 * site.T * cells, bytes=8 * cells + 2 * site.T * site.H * (2 * site.Q + 2 * site.V))


OP = Op(
    name="lightning_attention", reference=lightning_attention, inputs={"q": "THQ", "k": "THQ", "v": "THV", "state": "BHQV"},
    outputs={"o": "THV", "state": "BHQV"}, layer="domain", budget=Budget(rounds=2, accumulations=1024, special=8), cost=cost,
    cases=cases(make, queries=((1,), (1, 1, 1), (70, 1, 33)), H=(1, 6), Q=(16, 20), V=(20,)),
)  # fmt: skip
