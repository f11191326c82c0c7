"""Gated feed-forward network."""

from typing import Any

from torch import Tensor

from day0.parts.dense_ffn import DenseFfn
from day0.spec.block import FfnBlock


def run(x_TD: Tensor, f: DenseFfn, w: Any, ops: Any) -> Tensor:
    gate, up, down = (w.gate_bias, w.up_bias, w.down_bias) if f.bias else (None, None, None)
    hidden_TF = ops.gated_activation(ops.linear(x_TD, w.gate, gate), ops.linear(x_TD, w.up, up), f.activation)
    return ops.linear(hidden_TF, w.down, down)


BLOCK = FfnBlock(run=run)
