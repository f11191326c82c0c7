"""Routed experts, and shared ones that see every token."""

from typing import Any

from torch import Tensor

from day0.blocks.dense_ffn import gated
from day0.parts.moe_ffn import MoeFfn
from day0.spec.block import FfnBlock


def run(x_TD: Tensor, f: MoeFfn, w: Any, ops: Any) -> Tensor:
    logits_TE = ops.linear(x_TD.to(w.router.dtype), w.router)
    weights_TK, experts_TK = ops.route(logits_TE, f.top_k, f.router, w.router_bias if f.router.bias else None)
    banks = w.experts
    y_TD = ops.experts(x_TD, weights_TK, experts_TK, banks.gate, banks.up, banks.down, f.activation)
    if f.shared_width:
        y_TD = y_TD + gated(x_TD, w.shared, f.activation, ops)
    return y_TD


BLOCK = FfnBlock(run=run)
