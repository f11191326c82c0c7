"""Pixels of patches become vectors with positions."""

from typing import Any

from torch import Tensor

from day0.blocks.pre_norm import normed
from day0.parts.patch_embedding import PatchEmbedding
from day0.spec.block import EncoderBlock
from day0.spec.picture import places


def run(x_TI: Tensor, p: PatchEmbedding, w: Any, grid: tuple[int, int], ops: Any) -> Tensor:
    x_TD = ops.linear(x_TI, w.proj.flatten(1), w.proj_bias if p.bias else None)
    if p.grid:
        row_T, column_T = (place_T.to(x_TD.device) for place_T in places(grid, p.merge))
        table_JJD = w.grid.view(p.grid.side, p.grid.side, -1)
        x_TD = x_TD + ops.resample_grid(table_JJD, row_T, column_T, grid, p.grid.kernel, p.grid.corners)
    return normed(x_TD, p.norm, w, "norm", ops) if p.norm else x_TD


BLOCK = EncoderBlock(run=run)
