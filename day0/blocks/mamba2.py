"""Mamba-2: carried inputs of the convolution, and one matrix a head."""

from typing import Any

from torch import Tensor

from day0.parts.mamba2 import Mamba2
from day0.spec.block import MixerBlock
from day0.spec.step import Segment


def run(x_TD: Tensor, m: Mamba2, w: Any, state: Any, segment: Segment, ops: Any) -> Tensor:
    """Both phases: sequences of any number of new tokens, one included."""
    gate, xbc, step_TH = ops.linear(x_TD, w.inputs, w.inputs_bias if m.bias else None).split(m.rows, dim=-1)
    carried, bias = state.read("conv", segment), w.conv_bias if m.conv_bias else None
    xbc, carried = ops.short_convolution(xbc, w.conv.flatten(1), carried, segment.queries, bias)
    state.write("conv", carried, segment)
    x, b, c = xbc.split((m.width, m.groups * m.state_dim, m.groups * m.state_dim), dim=-1)
    b_TGQ, c_TGQ = (y.unflatten(-1, (m.groups, m.state_dim)) for y in (b, c))
    y_THV, memory = ops.selective_scan(
        x.unflatten(-1, (m.heads, m.head_dim)), step_TH, b_TGQ, c_TGQ, w.rate_log, w.step_bias, w.skip, m.least_step,
        state.read("memory", segment), segment.queries,
    )  # fmt: skip
    state.write("memory", memory, segment)
    grouped, weight = (m.groups, m.width // m.groups), w.o_norm.view(m.groups, -1)
    y_TGV, gate_TGV = y_THV.flatten(1).unflatten(-1, grouped), gate.unflatten(-1, grouped)
    y_TGV = ops.gated_rms_norm(y_TGV, gate_TGV, weight, m.norm.eps, "silu", gate_first=True)
    return ops.linear(y_TGV.flatten(1), w.o, w.o_bias if m.bias else None)


BLOCK = MixerBlock(prefill=run, decode=run)
