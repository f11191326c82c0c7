"""Rotate pairs of dimensions of each head by an angle that grows with position (RoFormer, arXiv 2104.09864)."""

from typing import Any

from day0.spec.cases import Draw, cases
from day0.spec.lazy import torch, wide
from day0.spec.ops import Budget, Cost, Op, Site
from day0.spec.step import Turn


def rotary(x_THQ: "torch.Tensor", turn: Turn, interleaved: bool = False) -> "torch.Tensor":
    """Rotate the first R dimensions of each head by the angles of `turn`, leave the rest.

    A pair of dimensions is (i, i + A), with A = R / 2, or (2i, 2i + 1) when interleaved.
    """
    A = turn.cos_TA.shape[-1]
    cos, sin = turn.cos_TA[:, None], turn.sin_TA[:, None]
    turned, rest = wide(x_THQ[..., : 2 * A]), x_THQ[..., 2 * A :]
    first, second = (turned[..., 0::2], turned[..., 1::2]) if interleaved else (turned[..., :A], turned[..., A:])
    pair = (first * cos - second * sin, second * cos + first * sin)
    joined = torch.stack(pair, dim=-1).flatten(-2) if interleaved else torch.cat(pair, dim=-1)
    return torch.cat((joined.to(x_THQ.dtype), rest), dim=-1)


def make(draw: Draw, T: int, H: int, Q: int, R: int, interleaved: bool) -> dict[str, Any]:
    angle_TA = draw.normal(T, R // 2, scale=100, dtype=torch.float64)
    turn = Turn(angle_TA.cos().float(), angle_TA.sin().float())
    return {"x_THQ": draw.normal(T, H, Q), "turn": turn, "interleaved": interleaved}


def cost(site: Site) -> Cost:
    return Cost(flops=3 * site.T * site.H * site.R, bytes=4 * site.T * site.H * site.Q)


OP = Op(
    name="rotary", reference=rotary, inputs={"x": "THQ", "turn": "TR"}, outputs={"y": "THQ"}, layer="base",
    cases=cases(make, T=(1, 63), H=(1, 5), Q=(60, 128), R=(32, 60), interleaved=(False, True)), budget=Budget(special=2), cost=cost,
)  # fmt: skip
