"""Gated feed-forward network."""

from typing import Any

from torch import Tensor

from day0.parts.dense_ffn import DenseFfn
from day0.spec.block import FfnBlock


def run(x_TD: Tensor, f: DenseFfn, w: Any, ops: Any) -> Tensor:
    both, down = (w.gate_up_bias, w.down_bias) if f.bias else (None, None)
    return gated(x_TD, w, f.activation, ops, both, down)


def gated(x_TD: Tensor, w: Any, activation: str, ops: Any, both: Any = None, down: Tensor | None = None) -> Tensor:
    """down(activation(gate(x)) · up(x)), with biases of gate and up together and of down."""
    gate_TF, up_TF = ops.linears(x_TD, w.gate_up, both).chunk(2, dim=-1)
    return ops.linear(ops.gated_activation(gate_TF, up_TF, activation), w.down, down)


BLOCK = FfnBlock(run=run)
