"""Linear attention that replaces what a key recalls: the gated delta rule (arXiv 2412.06464), with one decay a head or one a channel
(Kimi Delta Attention, arXiv 2510.26692, §3)."""

from typing import Any

from day0.spec.cases import Draw, cases
from day0.spec.lazy import torch, wide
from day0.spec.ops import Budget, Cost, Op, Site

EPS = 1e-6  # added to the sum of squares of a query or key


def delta_rule(
    q_THQ: "torch.Tensor", k_THQ: "torch.Tensor", v_TNV: "torch.Tensor", decay_TNC: "torch.Tensor", beta_TN: "torch.Tensor",
    state_BNQV: "torch.Tensor", queries: tuple[int, ...],
) -> "tuple[torch.Tensor, torch.Tensor]":  # fmt: skip
    """→ ([T, N, V], new state). For each token: S ← exp(decay) S; S ← S + beta k (v - kᵀS)ᵀ; o = Q^-½ qᵀS, with q and k of unit length.

    `decay_TNC` is a logarithm, with C = 1 where a head decays as a whole, else C = Q. Value head n reads query and key head n // (N / H).
    """
    T, H, Q = q_THQ.shape
    share = v_TNV.shape[1] // H
    q_TNQ, k_TNQ = (unit(x).repeat_interleave(share, dim=1) for x in (q_THQ, k_THQ))
    v, keep, beta = wide(v_TNV), wide(decay_TNC).exp(), wide(beta_TN)
    outputs, states = [], []
    for rows, S_NQV in zip(torch.arange(T).split(queries), wide(state_BNQV), strict=True):
        for t in rows.tolist():
            S_NQV = keep[t, :, :, None] * S_NQV
            recalled_NV = torch.einsum("nq,nqv->nv", k_TNQ[t], S_NQV)
            S_NQV = S_NQV + torch.einsum("nq,nv->nqv", k_TNQ[t], beta[t, :, None] * (v[t] - recalled_NV))
            outputs.append(torch.einsum("nq,nqv->nv", q_TNQ[t] * Q**-0.5, S_NQV))
        states.append(S_NQV)
    return torch.stack(outputs).to(v_TNV.dtype), torch.stack(states)


def unit(x_THQ: "torch.Tensor") -> "torch.Tensor":
    """Each row divided by its length."""
    x = wide(x_THQ)
    return x / (x.square().sum(-1, keepdim=True) + EPS).sqrt()


def make(draw: Draw, queries: tuple[int, ...], H: int, N: int, Q: int, V: int, channels: bool) -> dict[str, Any]:
    T = sum(queries)
    decay = -(draw.normal(T, N, Q if channels else 1, dtype=torch.float32).exp())
    state = draw.normal(len(queries), N, Q, V, dtype=torch.float64 if draw.dtype == torch.float64 else torch.float32)
    return {
        "q_THQ": draw.normal(T, H, Q), "k_THQ": draw.normal(T, H, Q), "v_TNV": draw.normal(T, N, V), "decay_TNC": decay,
        "beta_TN": draw.normal(T, N).sigmoid(), "state_BNQV": state, "queries": queries,
    }  # fmt: skip


def cost(site: Site) -> Cost:
    cells = site.N * site.Q * site.V
    return Cost(flops=7 * site.T * cells, bytes=8 * cells + 2 * site.T * (2 * site.H * site.Q + 2 * site.N * site.V))


OP = Op(
    name="delta_rule", reference=delta_rule, inputs={"q": "THQ", "k": "THQ", "v": "TNV", "decay": "TNC", "beta": "TN", "state": "BNQV"},
    outputs={"o": "TNV", "state": "BNQV"}, layer="domain", budget=Budget(rounds=2, accumulations=1024, special=8), cost=cost,
    cases=cases(make, queries=((1,), (1, 1, 1), (70, 1, 33)), H=(2,), N=(2, 6), Q=(16, 20), V=(12,), channels=(False, True)),
)  # fmt: skip
