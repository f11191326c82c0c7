"""Feed-forward network, gated or not."""

from typing import Any

from torch import Tensor

from day0.parts.dense_ffn import DenseFfn
from day0.spec.activation import Activation
from day0.spec.block import FfnBlock
from day0.spec.step import Step


def run(x_TD: Tensor, f: DenseFfn, w: Any, step: Step, ops: Any) -> Tensor:
    return network(x_TD, w, f.activation, ops, bias=f.bias)


def network(x_TD: Tensor, w: Any, activation: Activation, ops: Any, *, bias: bool = False) -> Tensor:
    """down(activation(gate(x)) · up(x)), or down(activation(up(x)))."""
    if activation.gated:
        gate_TF, up_TF = ops.linear(x_TD, w.gate_up, w.gate_up_bias if bias else None).chunk(2, dim=-1)
        hidden_TF = ops.gated_activation(gate_TF, up_TF, activation)
    else:
        hidden_TF = ops.activation(ops.linear(x_TD, w.up, w.up_bias if bias else None), activation)
    return ops.linear(hidden_TF, w.down, w.down_bias if bias else None)


BLOCK = FfnBlock(run=run)
