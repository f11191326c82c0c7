"""Several residual streams become one: a sum weighed by what all streams say (manifold-constrained hyper-connections, arXiv 2512.24880).

pre = sigmoid(rms(flatten(streams)) · weightᵀ · scale + base) + floor, one factor a stream.
"""

from typing import Any

from day0.spec.cases import Draw, cases
from day0.spec.lazy import torch, wide
from day0.spec.ops import Budget, Cost, Op, Site


def hyper_collapse(
    streams_TMD: "torch.Tensor", weight_MX: "torch.Tensor", base_M: "torch.Tensor", scale: "torch.Tensor", floor: float, eps: float
) -> "torch.Tensor":
    """→ [T, D]. X = M · D; `scale` holds one number; `eps` is that of the norm, `floor` is added to every factor."""
    pre_TM = torch.sigmoid(mixed(streams_TMD, weight_MX, eps) * wide(scale) + wide(base_M)) + floor
    return (pre_TM[..., None] * wide(streams_TMD)).sum(1).to(streams_TMD.dtype)


def mixed(streams_TMD: "torch.Tensor", weight_OX: "torch.Tensor", eps: float) -> "torch.Tensor":
    """→ [T, O]: a linear map of all streams of a token, scaled together to unit root mean square."""
    flat_TX = wide(streams_TMD).flatten(1)
    flat_TX = flat_TX * (flat_TX.square().mean(-1, keepdim=True) + eps).rsqrt()
    return flat_TX @ wide(weight_OX).to(flat_TX.dtype).T


def make(draw: Draw, T: int, M: int, D: int) -> dict[str, Any]:
    return {
        "streams_TMD": draw.normal(T, M, D, scale=3),
        "weight_MX": draw.normal(M, M * D, scale=(M * D) ** -0.5, dtype=torch.float32),
        "base_M": draw.normal(M, dtype=torch.float32),
        "scale": draw.normal(1, dtype=torch.float32),
        "floor": 1e-6,
        "eps": 1e-6,
    }


def cost(site: Site) -> Cost:
    width = site.M * site.D
    return Cost(flops=2 * site.T * width * (site.M + 2), bytes=4 * site.M * width + 2 * site.T * (width + site.D))


OP = Op(
    name="hyper_collapse", reference=hyper_collapse, inputs={"streams": "TMD", "weight": "OI", "base": "O", "scale": "G"},
    outputs={"x": "TD"}, layer="domain", cases=cases(make, T=(1, 63), M=(3, 4), D=(60, 128)),
    budget=Budget(accumulations=512, special=8), cost=cost,
)  # fmt: skip
