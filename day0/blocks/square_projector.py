"""Squares of neighbouring patches by a convolution, then a gated network."""

from typing import Any

from torch import Tensor

from day0.blocks.dense_ffn import network
from day0.blocks.pre_norm import normed
from day0.parts.square_projector import SquareProjector
from day0.spec.block import EncoderBlock


def run(x_TD: Tensor, m: SquareProjector, w: Any, grid: tuple[int, int], ops: Any) -> Tensor:
    x_TD = normed(x_TD, m.final, w, "final", ops)
    x_NI = x_TD.unflatten(0, (-1, m.merge**2)).transpose(1, 2).flatten(1)  # channels outside places, as the kernel is stored
    x_NO = ops.linear(ops.linear(x_NI, w.square.flatten(1), w.square_bias), w.proj)
    return network(ops.activation(normed(x_NO, m.norm, w, "norm", ops), m.between), w, m.activation, ops)


BLOCK = EncoderBlock(run=run)
