"""State-space recurrence with one decay a head that depends on the token (Mamba-2, arXiv 2405.21060, §7)."""

from typing import Any

from day0.spec.cases import Draw, cases
from day0.spec.lazy import functional, torch, wide
from day0.spec.ops import Budget, Cost, Op, Site


def selective_scan(
    x_THV: "torch.Tensor", step_TH: "torch.Tensor", b_TGQ: "torch.Tensor", c_TGQ: "torch.Tensor", rate_log_H: "torch.Tensor",
    bias_H: "torch.Tensor", skip_H: "torch.Tensor", least: float, state_BHQV: "torch.Tensor", queries: tuple[int, ...],
) -> "tuple[torch.Tensor, torch.Tensor]":  # fmt: skip
    """→ ([T, H, V], new state). With d = softplus(step + bias), `least` at least, for each token: S ← exp(-exp(rate_log) d) S + d b xᵀ;
    y = cᵀS + skip x. Head h reads b and c of group h // (H / G)."""
    T, H, _ = x_THV.shape
    share = H // b_TGQ.shape[1]
    x, b_THQ, c_THQ = wide(x_THV), *(wide(y).repeat_interleave(share, dim=1) for y in (b_TGQ, c_TGQ))
    d_TH = functional.softplus(wide(step_TH) + bias_H).clamp(least)
    keep_TH = (-wide(rate_log_H).exp() * d_TH).exp()
    outputs, states = [], []
    for rows, S_HQV in zip(torch.arange(T).split(queries), state_BHQV.to(x.dtype), strict=True):
        for t in rows.tolist():
            S_HQV = keep_TH[t, :, None, None] * S_HQV + torch.einsum("hq,hv->hqv", d_TH[t, :, None] * b_THQ[t], x[t])
            outputs.append(torch.einsum("hq,hqv->hv", c_THQ[t], S_HQV) + wide(skip_H)[:, None] * x[t])
        states.append(S_HQV)
    return torch.stack(outputs).to(x_THV.dtype), torch.stack(states)


def make(draw: Draw, queries: tuple[int, ...], H: int, G: int, Q: int, V: int) -> dict[str, Any]:
    T = sum(queries)
    state = draw.normal(len(queries), H, Q, V, dtype=torch.float64 if draw.dtype == torch.float64 else torch.float32)
    return {
        "x_THV": draw.normal(T, H, V), "step_TH": draw.normal(T, H), "b_TGQ": draw.normal(T, G, Q), "c_TGQ": draw.normal(T, G, Q),
        "rate_log_H": draw.normal(H, dtype=torch.float32), "bias_H": draw.normal(H, dtype=torch.float32), "skip_H": draw.normal(H),
        "least": 0.3, "state_BHQV": state, "queries": queries,
    }  # fmt: skip


def cost(site: Site) -> Cost:
    cells = site.H * site.Q * site.V
    return Cost(flops=5 * site.T * cells, bytes=8 * cells + 2 * site.T * (2 * site.H * site.V + 2 * site.G * site.Q))


OP = Op(
    name="selective_scan", reference=selective_scan,
    inputs={"x": "THV", "step": "TH", "b": "TGQ", "c": "TGQ", "rate_log": "H", "bias": "H", "skip": "H", "state": "BHQV"},
    outputs={"y": "THV", "state": "BHQV"}, layer="domain", budget=Budget(rounds=2, accumulations=1024, special=8), cost=cost,
    cases=cases(make, queries=((1,), (1, 1, 1), (70, 1, 33)), H=(6,), G=(1, 3), Q=(16, 20), V=(12,)),
)  # fmt: skip
