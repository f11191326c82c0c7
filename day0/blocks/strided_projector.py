"""Convolutions that halve rows and columns, as linear maps of the patches that each covers, then a projection."""

from typing import Any

import torch.nn.functional as functional
from torch import Tensor

from day0.parts.strided_projector import KERNEL, PADDING, STRIDE, StridedProjector
from day0.spec.block import EncoderBlock


def run(x_TD: Tensor, m: StridedProjector, w: Any, grid: tuple[int, int], ops: Any) -> Tensor:
    rows, columns = grid
    for number in range(m.convolutions):
        covered = functional.unfold(x_TD.T.unflatten(1, (rows, columns))[None], KERNEL, padding=PADDING, stride=STRIDE)[0].T
        x_TD = ops.linear(covered, getattr(w, f"halve_{number}").flatten(1), getattr(w, f"halve_{number}_bias"))
        rows, columns = -(-rows // STRIDE), -(-columns // STRIDE)
    return ops.linear(x_TD, w.proj, w.proj_bias if m.bias else None)


BLOCK = EncoderBlock(run=run)
