"""Faults of formats, kernels and the state manager: what an engine can get wrong while the family's file is right."""

from functools import partial
from typing import Any

import torch

from day0.engine.bind import Function
from day0.spec.registry import ops
from tests.mutation.fault import Planted, call, decode, forgotten, later_positions, nibbles, stale, times, truncated
from tests.validate.planted import other_scale

WEIGHTS, OPERATORS, FLOAT32 = dict(until="weights"), dict(until="operators"), dict(only=["layers"], dtype="float32")


def flipped(parts: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Scales along the other axis."""
    return parts | {"scale": parts["scale"].contiguous().mT.reshape(parts["scale"].shape)}


def power_of_two(parts: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Scales rounded up to powers of two, codes left as they are."""
    return parts | {"scale": torch.exp2(torch.log2(parts["scale"].float()).ceil()).to(parts["scale"].dtype)}


def smaller(parts: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Exponents one too small."""
    scale = parts["scale"].contiguous()
    return parts | {"scale": (scale.view(torch.uint8) - 1).view(scale.dtype)}


FORMATS = {
    "scale of another weight": Planted(
        "deepseek_v3-fp8", "weights", 1, "mixer", other_scale("layers.1.mixer.o", "layers.0.mixer.o"), wanted=WEIGHTS),
    "scale of another expert": Planted(
        "qwen3_moe-fp8", "weights", 1, "ffn", other_scale("layers.1.ffn.experts.down", "layers.1.ffn.experts.down"),
        wanted=WEIGHTS | dict(layers="1")),
    "scales along the other axis": Planted("deepseek_v3-fp8", "weights", 0, "mixer", patch=decode("fp8_block", flipped), wanted=WEIGHTS),
    "scales rounded up to powers of two": Planted(
        "deepseek_v3-fp8", "weights", 0, "mixer", patch=decode("fp8_block", power_of_two), wanted=WEIGHTS),
    "high half of a byte first, mxfp4": Planted("qwen3_moe-mxfp4", "weights", 1, "ffn", patch=decode("mxfp4", nibbles), pattern="pairs exchanged",
        wanted=WEIGHTS),
    "high half of a byte first, nvfp4": Planted("qwen3_moe-nvfp4", "weights", 1, "ffn", patch=decode("nvfp4", nibbles), pattern="pairs exchanged",
        wanted=WEIGHTS),
    "high half of a byte first, int4": Planted("qwen3_moe-int4", "weights", 1, "ffn", patch=decode("int4", nibbles), pattern="pairs exchanged",
        wanted=WEIGHTS),
    "exponents one too small": Planted("deepseek_v3-mxfp4", "weights", 1, "ffn", patch=decode("mxfp4", smaller),
        pattern="scaled by 0.5", wanted=WEIGHTS),
    "an expert lost its last columns": Planted(
        "deepseek_v3", "weights", 2, "ffn", patch=partial(truncated, "layers.2.ffn.experts.gate", 5, 8), pattern="a part of the weight",
        wanted=WEIGHTS),
    "an expert lost its last columns, seen from the layer": Planted(
        "deepseek_v3", "layers", 2, "ffn", patch=partial(truncated, "layers.2.ffn.experts.gate", 5, 8), operator="experts",
        wanted=FLOAT32),
}  # fmt: skip


def dropped_expert(function: Function) -> Function:
    """The last chosen expert of every token is left out."""
    return lambda x, weights, experts, *rest, **named: function(x, weights[:, :-1], experts[:, :-1], *rest, **named)


def upper_half(function: Function) -> Function:
    """Halves of the result exchanged."""
    return lambda *args, **kwargs: function(*args, **kwargs).roll(function(*args, **kwargs).shape[-1] // 2, -1)


def truncating(function: Function) -> Function:
    """Truncation instead of rounding to nearest."""

    def norm(x: torch.Tensor, weight: Any, *rest: Any) -> torch.Tensor:
        exact = ops().get("rms_norm").reference(x.float(), weight.float(), *rest)
        return (exact.view(torch.int32) & ~0xFFFF).view(torch.float32).to(x.dtype) if x.dtype == torch.bfloat16 else exact

    return norm


def narrow_sums(function: Function) -> Function:
    """Partial sums of 8 products are rounded to bfloat16."""

    def linear(x: torch.Tensor, weight: Any, bias: Any = None) -> torch.Tensor:
        joined = torch.cat(list(weight)) if not isinstance(weight, torch.Tensor) else weight
        if x.dtype != torch.bfloat16:
            return function(x, weight, bias)
        total = torch.zeros(len(x), len(joined), dtype=torch.bfloat16)
        for start in range(0, x.shape[1], 8):
            total = total + x[:, start : start + 8] @ joined[:, start : start + 8].T
        return total if bias is None else total + (torch.cat(list(bias)) if not isinstance(bias, torch.Tensor) else bias)

    return linear


def first_of_equals(function: Function) -> Function:
    """The best experts but one."""

    def route(logits: torch.Tensor, top_k: int, *rest: Any, **named: Any) -> Any:
        weights, experts = function(logits, top_k + 1, *rest, **named)
        kept = [*range(top_k - 1), top_k]
        return weights[:, kept], experts[:, kept]

    return route


def narrow_router(function: Function) -> Function:
    """The router's product, which the release takes in float32, in bfloat16."""

    def linear(x: torch.Tensor, weight: Any, bias: Any = None) -> torch.Tensor:
        if isinstance(weight, torch.Tensor) and weight.dtype == torch.float32 and x.dtype == torch.float32 and weight.shape[0] == 12:
            return (x.bfloat16() @ weight.bfloat16().T).float()
        return function(x, weight, bias)

    return linear


KERNELS = {
    "norms one percent too large": Planted("llama", "operators", 0, "residual", patch=call("rms_norm", times(1.01)), operator="rms_norm",
                                           pattern="scaled by 1.01", wanted=OPERATORS),
    "latent attention one percent too large": Planted(
        "deepseek_v3", "operators", 0, "mixer", patch=call("latent_attention", times(1.01)), operator="latent_attention", wanted=OPERATORS),
    "experts one percent too large": Planted(
        "mixtral", "operators", 0, "ffn", patch=call("experts", times(1.01)), operator="experts", wanted=OPERATORS),
    "last expert of each token left out": Planted(
        "qwen3_moe", "operators", 0, "ffn", patch=call("experts", dropped_expert), operator="experts", wanted=OPERATORS),
    "halves of the activation exchanged": Planted(
        "llama", "operators", 0, "ffn", patch=call("gated_activation", upper_half), operator="gated_activation",
        pattern="halves exchanged", wanted=OPERATORS),
    "truncation instead of rounding": Planted(
        "qwen3", "operators", 0, "mixer", patch=call("rms_norm", truncating), operator="rms_norm", wanted=OPERATORS),
    "sums in bfloat16": Planted(
        "deepseek_v3", "operators", 0, "mixer", patch=call("linear", narrow_sums), operator="linear", pattern="precision",
        wanted=OPERATORS),
    "second best expert skipped": Planted(
        "olmoe", "operators", 0, "ffn", patch=call("route", first_of_equals), operator="route", wanted=OPERATORS),
    "router in bfloat16": Planted(
        "deepseek_v3", "layers", 1, "router", patch=call("linear", narrow_router), wanted=dict(only=["layers"])),
}  # fmt: skip

STATE = {
    "positions one too large after the first chunk": Planted(
        "llama", "layers", 0, "positions", patch=later_positions, pattern="position", wanted=FLOAT32),
    "stale entry of keys": Planted("qwen3_moe", "layers", 0, "state", patch=stale("k"), pattern="state", wanted=FLOAT32),
    "stale entry of latents": Planted("deepseek_v3", "layers", 0, "state", patch=stale("latent"), pattern="state", wanted=FLOAT32),
    "convolution forgets what a chunk brought": Planted(
        "kimi_linear", "layers", 0, "state", patch=forgotten("conv"), pattern="state", wanted=FLOAT32),
    "memory does not decay across chunks but vanishes": Planted(
        "kimi_linear", "layers", 0, "state", patch=forgotten("memory"), pattern="state", wanted=FLOAT32),
    "memory of a state space lost": Planted(
        "nemotron_h", "layers", 0, "state", patch=forgotten("memory"), pattern="state", wanted=FLOAT32),
    "decay of the state one percent too slow": Planted(
        "qwen3_next", "layers", 0, "mixer", patch=call("log_decay", times(0.99)), operator="", wanted=FLOAT32),
}  # fmt: skip
