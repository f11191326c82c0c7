"""Several residual streams become one through low-rank weights of every channel (gated hyper-connections of Qwen's experimental models).

n = norm of each stream; x = mean over streams of sigmoid(up · silu(down · n / M)) · n.
"""

from typing import Any

from day0.spec.cases import Draw, cases
from day0.spec.lazy import functional, torch, wide
from day0.spec.ops import Budget, Cost, Op, Site


def hyper_mix(
    streams_TMD: "torch.Tensor", norm_I: "torch.Tensor", down_CI: "torch.Tensor", up_IC: "torch.Tensor", eps: float
) -> "torch.Tensor":
    """→ [T, D]. I = M · D; `norm_I` is stored as its difference from one."""
    normed_TMD = normed(streams_TMD, norm_I, eps)
    down, up = (wide(weight).to(normed_TMD.dtype) for weight in (down_CI, up_IC))
    low_TC = functional.silu(normed_TMD.flatten(1) @ down.T / streams_TMD.shape[1])
    share_TMD = torch.sigmoid(low_TC @ up.T).view_as(normed_TMD)
    return (share_TMD * normed_TMD).mean(1).to(streams_TMD.dtype)


def normed(streams_TMD: "torch.Tensor", norm_I: "torch.Tensor", eps: float) -> "torch.Tensor":
    """→ [T, M, D], wide: each stream scaled to unit root mean square, then by its share of one plus the weight."""
    streams = wide(streams_TMD)
    scaled = streams * (streams.square().mean(-1, keepdim=True) + eps).rsqrt()
    return scaled * (1 + wide(norm_I).to(streams.dtype).view(streams.shape[1:]))


def make(draw: Draw, T: int, M: int, D: int, C: int) -> dict[str, Any]:
    width = M * D
    return {
        "streams_TMD": draw.normal(T, M, D, scale=3), "norm_I": draw.normal(width, scale=0.2), "eps": 1e-6,
        "down_CI": draw.normal(C, width, scale=width**-0.5), "up_IC": draw.normal(width, C, scale=C**-0.5),
    }  # fmt: skip


def cost(site: Site) -> Cost:
    return Cost(flops=4 * site.T * site.C * site.I, bytes=4 * site.C * site.I + 2 * site.T * (site.I + site.D))


OP = Op(
    name="hyper_mix", reference=hyper_mix, inputs={"streams": "TMD", "norm": "I", "down": "CI", "up": "IC"}, outputs={"x": "TD"},
    layer="domain", cases=cases(make, T=(1, 63), M=(2, 4), D=(60, 128), C=(6, 20)), budget=Budget(accumulations=1024, special=8), cost=cost,
)  # fmt: skip
