"""Linear maps of groups of inputs, each by its own rows of one matrix; results side by side (DeepSeek-V4, §2.3.1)."""

from typing import Any

from day0.spec.cases import Draw, cases
from day0.spec.lazy import torch, wide
from day0.spec.ops import Budget, Cost, Op, Site


def grouped_linear(x_TGI: "torch.Tensor", weight_OI: "torch.Tensor") -> "torch.Tensor":
    """→ [T, O]. O / G rows belong to each group."""
    weight_GOI = wide(weight_OI).to(wide(x_TGI).dtype).unflatten(0, (x_TGI.shape[1], -1))
    return torch.einsum("tgi,goi->tgo", wide(x_TGI), weight_GOI).flatten(1).to(x_TGI.dtype)


def make(draw: Draw, T: int, G: int, O: int, I: int) -> dict[str, Any]:  # noqa: E741
    return {"x_TGI": draw.normal(T, G, I), "weight_OI": draw.normal(G * O, I, scale=I**-0.5)}


def cost(site: Site) -> Cost:
    return Cost(flops=2 * site.T * site.O * site.I, bytes=2 * (site.O * site.I + site.T * (site.O + site.G * site.I)))


OP = Op(
    name="grouped_linear", reference=grouped_linear, inputs={"x": "TGI", "weight": "OI"}, outputs={"y": "TO"}, layer="base",
    cases=cases(make, T=(1, 63), G=(1, 8), O=(12, 60), I=(60, 1000)), budget=Budget(accumulations=1024), cost=cost,
)  # fmt: skip
