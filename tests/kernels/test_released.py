"""Kernels on weights as the engine holds them: of checkpoints of every packed format, read from their files."""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from day0.engine import footprint
from day0.engine.packed import Group
from day0.engine.release import Release
from day0.engine.weights import load
from day0.spec.packed import Packed
from tests.kernels.test_packed import wrong
from tests.zoo import checkpoint

FEW = ("qwen3_moe-awq", "qwen3_moe-gptq", "qwen3_moe-fp8-tensor", "deepseek_v3-nvfp4")
MORE = (
    "deepseek_v3-fp8", "deepseek_v3-fp8-ue8m0", "deepseek_v3-int4", "kimi_k3-mxfp4", "qwen3_moe-fp8-64x128", "qwen3_moe-fp8-channel",
    "qwen3_moe-mxfp8",
)  # fmt: skip


@pytest.mark.parametrize("name", [*FEW, *(pytest.param(name, marks=pytest.mark.slow) for name in MORE)])
def test_weights_of_a_checkpoint(name: str, interpreter: ProcessPoolExecutor) -> None:
    found = interpreter.submit(judged, name).result()
    assert "experts" in found
    assert {where: fault for where, fault in found.items() if fault} == {}


def judged(name: str) -> dict[str, str | None]:
    """Each packed weight of one layer → what is wrong with its product."""
    release = Release.open(checkpoint(name))
    index, ffn = next((layer.index, layer.ffn) for layer in release.model.layers if packed_experts(release, layer.index))
    group = release.layer(index)
    layout = footprint.buffer(group, "bfloat16")
    weights = load(release, group, layout, torch.zeros(layout.bytes, dtype=torch.uint8), "bfloat16")
    torch.manual_seed(0)
    found = {path: wrong("linear", {"x_TI": torch.randn(3, width(weight)).bfloat16(), "weight_OI": weight}) for path, weight in matrices(weights)}
    return found | {"experts": wrong("experts", routed(ffn, weights.ffn.experts))}


def packed_experts(release: Release, index: int) -> bool:
    return any(located.spec.role == "expert" and located.format != "plain" for located in release.layer(index).values())


def matrices(weights: SimpleNamespace, path: str = "") -> Iterator[tuple[str, Any]]:
    """Names and values of packed weights that are no banks, and of groups of them."""
    for name, value in vars(weights).items():
        if isinstance(value, SimpleNamespace):
            yield from matrices(value, f"{path}{name}.")
        elif (isinstance(value, Packed) and not value.bank) or (isinstance(value, Group) and "plain" not in value.format):
            yield path + name, value


def width(weight: Any) -> int:
    return int((weight.members[0] if isinstance(weight, Group) else weight).shape[-1])


def routed(ffn: Any, banks: Any) -> dict[str, Any]:
    """A call of the experts for four tokens."""
    chosen = torch.stack([torch.randperm(ffn.experts)[: ffn.top_k] for _ in range(4)])
    return {
        "x_TD": torch.randn(4, width(banks.up)).bfloat16(), "weights_TK": torch.rand(chosen.shape), "experts_TK": chosen,
        "gate_EFD": banks.gate if ffn.activation.gated else None, "up_EFD": banks.up, "down_EDF": banks.down, "activation": ffn.activation,
    }  # fmt: skip
