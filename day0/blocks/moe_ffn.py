"""Routed experts, and shared ones that see every token."""

from typing import Any

import torch
from torch import Tensor

from day0.blocks.dense_ffn import network
from day0.parts.moe_ffn import MoeFfn
from day0.spec.block import FfnBlock
from day0.spec.step import Step


def run(x_TD: Tensor, f: MoeFfn, w: Any, step: Step, ops: Any) -> Tensor:
    weights_TK, experts_TK = choose(x_TD, f, w, step, ops)
    y_TD = routed(x_TD, weights_TK, experts_TK, f, w, ops)
    if f.shared_width:
        shared_TD = network(x_TD, w.shared, f.shared_activation or f.activation, ops)
        if f.apart:
            return torch.stack((shared_TD, y_TD), dim=1)
        y_TD = y_TD + (shared_TD * torch.sigmoid(ops.linear(x_TD, w.shared_gate)) if f.shared_gate else shared_TD)
    if f.out_norm:
        y_TD = ops.rms_norm(y_TD, w.out_norm, f.out_norm.eps, f.out_norm.plus_one)
    return y_TD


def choose(x_TD: Tensor, f: MoeFfn, w: Any, step: Step, ops: Any) -> tuple[Tensor, Tensor]:
    """(weights [T, K] float32, experts [T, K]); the router computes in the type that its weights rest in."""
    rule = f.router
    logits_TE = ops.linear(x_TD.to(w.router.dtype), w.router, w.router_linear_bias if rule.linear_bias else None)
    given_TK = w.router_table[step.tokens_T] if rule.table else None
    return ops.route(logits_TE, f.top_k, rule, w.router_bias if rule.bias else None, given_TK)


def routed(x_TD: Tensor, weights_TK: Tensor, experts_TK: Tensor, f: MoeFfn, w: Any, ops: Any) -> Tensor:
    """Sum of the chosen experts, through the latent where there is one."""
    banks = w.experts
    gate = banks.gate if f.activation.gated else None
    biases = (banks.gate_bias if f.activation.gated else None, banks.up_bias, banks.down_bias) if f.biases else None
    x = ops.linear(x_TD, w.latent_down) if f.latent else x_TD
    identity_from = f.experts if f.identities else None
    y = ops.experts(x, weights_TK, experts_TK, gate, banks.up, banks.down, f.activation, biases, identity_from, f.scale_input)
    if f.latent and f.latent_norm:
        y = ops.rms_norm(y, w.latent_norm, f.latent_norm.eps, f.latent_norm.plus_one)
    return ops.linear(y, w.latent_up) if f.latent else y


BLOCK = FfnBlock(run=run)
