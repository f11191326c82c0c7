"""Faults of stored numbers that were met in releases and engines: each is found on the lowest rung, with the change that explains it."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")

from day0.engine.release import Release
from day0.spec.reports.validate import Divergence
from tests.mutation.fault import Patch, decode, nibbles
from tests.validate.planted import Fault, validate
from tests.zoo import checkpoint

Parts = dict[str, torch.Tensor]


def found(monkeypatch: pytest.MonkeyPatch, name: str, patch: Patch | None = None, fault: Fault | None = None) -> Divergence | None:
    if patch:
        patch(monkeypatch)
    return validate(monkeypatch, checkpoint(name), fault, until="weights").first_divergence


def rounded_up(parts: Parts) -> Parts:
    return parts | {"scale": torch.exp2(torch.log2(parts["scale"].float()).ceil())}


def mantissa_cut(parts: Parts) -> Parts:
    return parts | {"scale": torch.exp2(torch.log2(parts["scale"].float()).floor())}


@pytest.mark.parametrize(("change", "low", "high"), [(rounded_up, 1.0, 2.0), (mantissa_cut, 0.5, 1.0)])
def test_scales_made_powers_of_two_while_codes_stay(monkeypatch: pytest.MonkeyPatch, change: Any, low: float, high: float) -> None:
    """vllm #38083, #22399; transformers #47030: finite, no warning, 12 points lower. The factors of the blocks are told."""
    first = found(monkeypatch, "deepseek_v3-fp8", decode("fp8_block", change))
    assert first is not None and (first.rung, first.code) == ("weights", "D0501")
    factors = re.fullmatch(r"each block scaled by its own factor, (\S+) to (\S+)|scaled by (\S+)", first.pattern)
    assert factors is not None and all(low <= float(factor) <= high for factor in factors.groups() if factor)


def test_codes_made_anew_for_powers_of_two_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(monkeypatch, "deepseek_v3-fp8-ue8m0") is None


def test_up_scaled_by_the_factor_of_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    """vllm #47515, #54974: gate and up of an NVFP4 expert have factors of their own, up to 2.14 apart."""

    def doubled(release: Release) -> None:
        up = release.tensors["layers.1.ffn.experts.up"]
        other = release.tensors["layers.1.ffn.experts.down"].pieces[0][1]
        single = next(part for part in ("factor", "divisor") if part in other.parts)
        piece, stored = up.pieces[0]
        wrong = stored._replace(parts={**stored.parts, single: other.parts[single]})
        release.tensors[up.name] = replace(up, pieces=((piece, wrong), *up.pieces[1:]))

    first = found(monkeypatch, "qwen3_moe-nvfp4", fault=doubled)
    assert first is not None and (first.code, first.layer) == ("D0501", 1)
    assert "experts.0.up_proj" in first.line and first.pattern.startswith("scaled by")


@pytest.mark.parametrize(("name", "form"), [("qwen3_moe-mxfp4", "mxfp4"), ("qwen3_moe-int4", "int4"), ("qwen3_moe-nvfp4", "nvfp4")])
def test_which_nibble_is_first(monkeypatch: pytest.MonkeyPatch, name: str, form: str) -> None:
    """imp #567, #722: fluent nonsense from layer 0."""
    first = found(monkeypatch, name, decode(form, nibbles))
    assert first is not None and first.pattern == "pairs exchanged"


@pytest.mark.parametrize(("name", "form"), [("qwen3_moe-awq", "awq"), ("qwen3_moe-gptq", "gptq")])
def test_a_zero_point_that_is_one_off(monkeypatch: pytest.MonkeyPatch, name: str, form: str) -> None:
    """AutoAWQ #275: zero, or zero and one; every value is off by one step of its group."""

    def later(parts: Parts) -> Parts:
        name = next(name for name in parts if name.startswith("zeros"))
        return parts | {name: parts[name] ^ 0x11111111}

    first = found(monkeypatch, name, decode(form, later))
    assert first is not None and first.code == "D0501" and first.pattern.startswith(("each block shifted", "the same vector"))


def test_fp8_read_as_whole_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """mlx-lm #1192: 20,000 times too large."""

    def integers(parts: Parts) -> Parts:
        return parts | {"data": parts["data"].view(torch.int8).float()}

    first = found(monkeypatch, "deepseek_v3-fp8", decode("fp8_block", integers))
    assert first is not None and first.code == "D0501"


def test_a_square_matrix_held_turned_is_called_transposed(monkeypatch: pytest.MonkeyPatch) -> None:
    """transformers #47031: equal dimensions carry no sign of orientation."""
    from day0.engine import loading

    right = loading.fill

    def fill(folder: Path, located: Any, part: str, out: torch.Tensor) -> None:
        right(folder, located, part, out)
        if located.name == "layers.1.mixer.o":
            out.copy_(out.T.clone())

    monkeypatch.setattr(loading, "fill", fill)
    name = next(name for name in ("olmoe", "qwen2", "mixtral", "llama") if _square(name))
    first = found(monkeypatch, name)
    assert first is not None and (first.code, first.layer, first.pattern) == ("D0505", 1, "transposed")


def _square(name: str) -> bool:
    shape = Release.open(checkpoint(name)).tensors["layers.1.mixer.o"].spec.shape
    return shape[0] == shape[1]
