"""Faults in what reads images, one in each kind of part, as a list."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from day0.spec.activation import Activation
from day0.spec.model import PartSpec


class Mutation(NamedTuple):
    checkpoint: str
    part: Callable[[Any], PartSpec] = lambda part: part  # its record made wrong
    stream: Callable[[torch.Tensor], torch.Tensor] = lambda x: x  # what it is given


MUTATIONS = {
    "patch_embedding": Mutation("kimi_k25", lambda p: replace(p, grid=replace(p.grid, corners=not p.grid.corners))),
    "vision_attention": Mutation("glm5_next", lambda m: replace(m, rope=replace(m.rope, theta=m.rope.theta * 1.5))),
    "patch_merger": Mutation("qwen3_vl_moe", lambda m: replace(m, ordered=not m.ordered)),
    "square_projector": Mutation("glm5_next", lambda m: replace(m, between=Activation(kind="silu", gated=False))),
    "strided_projector": Mutation("step3p7", stream=lambda x_TD: x_TD.flip(0)),
}
