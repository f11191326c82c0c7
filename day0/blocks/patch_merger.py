"""Squares of neighbouring patches, joined, through two maps."""

from typing import Any

from torch import Tensor

from day0.blocks.pre_norm import normed
from day0.parts.patch_merger import PatchMerger
from day0.spec.block import EncoderBlock


def run(x_TD: Tensor, m: PatchMerger, w: Any, grid: tuple[int, int], ops: Any) -> Tensor:
    if m.final:
        x_TD = normed(x_TD, m.final, w, "final", ops)
    if not m.ordered:
        rows, columns = (count // m.merge for count in grid)
        x_TD = x_TD.reshape(rows, m.merge, columns, m.merge, -1).transpose(1, 2).flatten(0, 3)
    if not m.joined:
        x_TD = normed(x_TD, m.norm, w, "norm", ops)
    x_NI = x_TD.reshape(-1, m.width(x_TD.shape[-1]))
    if m.joined:
        x_NI = normed(x_NI, m.norm, w, "norm", ops)
    return ops.linear(ops.activation(ops.linear(x_NI, w.up, w.up_bias), m.activation), w.down, w.down_bias)


BLOCK = EncoderBlock(run=run)
