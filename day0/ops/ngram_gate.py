"""A looked-up value for every residual stream, weighed by how well the stream agrees with a looked-up key, and its norm.

g = norm(key) · norm(stream) / √D; the value counts with sigmoid(sign(g) · √max(|g|, 10⁻⁶)) (Qwen's experimental models).
"""

from typing import Any

from day0.ops.hyper_mix import normed
from day0.spec.cases import Draw, cases
from day0.spec.lazy import torch, wide
from day0.spec.ops import Budget, Cost, Op, Site


def ngram_gate(
    streams_TMD: "torch.Tensor", keys_TMD: "torch.Tensor", value_TD: "torch.Tensor", query_norm_I: "torch.Tensor",
    key_norm_I: "torch.Tensor", value_norm_I: "torch.Tensor", eps: float,
) -> "tuple[torch.Tensor, torch.Tensor]":  # fmt: skip
    """→ (weighed values [T, M, D], the same normed). I = M · D; norms are stored as their difference from one."""
    products = normed(keys_TMD, key_norm_I, eps) * normed(streams_TMD, query_norm_I, eps)
    gate_TM1 = products.sum(-1, keepdim=True) * streams_TMD.shape[-1] ** -0.5
    gate_TM1 = gate_TM1.abs().clamp_min(1e-6).sqrt() * gate_TM1.sign()
    weighed_TMD = torch.sigmoid(gate_TM1) * wide(value_TD)[:, None]
    return weighed_TMD.to(streams_TMD.dtype), normed(weighed_TMD, value_norm_I, eps).to(streams_TMD.dtype)


def make(draw: Draw, T: int, M: int, D: int) -> dict[str, Any]:
    norms = {f"{name}_norm_I": draw.normal(M * D, scale=0.2) for name in ("query", "key", "value")}
    return {"streams_TMD": draw.normal(T, M, D), "keys_TMD": draw.normal(T, M, D), "value_TD": draw.normal(T, D), **norms, "eps": 1e-6}


def cost(site: Site) -> Cost:
    return Cost(flops=16 * site.T * site.I, bytes=2 * site.T * (4 * site.I + site.D))


OP = Op(
    name="ngram_gate", reference=ngram_gate, layer="domain",
    inputs={"streams": "TMD", "keys": "TMD", "value": "TD", "query_norm": "I", "key_norm": "I", "value_norm": "I"},
    outputs={"values": "TMD", "normed": "TMD"}, cases=cases(make, T=(1, 63), M=(2, 4), D=(60, 128)),
    budget=Budget(rounds=2, accumulations=64, special=16), cost=cost,
)  # fmt: skip
