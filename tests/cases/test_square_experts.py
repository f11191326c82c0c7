"""Banks of experts whose shape does not tell outputs from inputs: read right, said to be so, and named where they are read the other way."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")

from safetensors.torch import load_file

from day0.community.decode import independent
from day0.engine.loading import decoded
from day0.engine.release import Release
from day0.spec.names import Cut
from day0.stages.inspect import inspect
from tests.cases.inspected import Tensors, folder, write
from tests.cases.square import BANK, EXPERTS, HIDDEN, IDS, expected, release
from tests.engine.opened import logits, start
from tests.validate.planted import validate

__all__ = ["folder"]
TURNED, HELD = "qwen3_vl_moe", "qwen3_5_moe"  # [experts, inputs, outputs]; [experts, outputs, inputs]
FAMILIES = {TURNED: "inputs, outputs", HELD: "outputs, inputs", "llama4_text": "inputs, outputs", "gpt_oss": "inputs, outputs"}
SQUARE = {64: "down", 32: "gate_up", 48: ""}  # width of an expert → its bank that is square
LAYERS = dict(only=["layers"], dtype="float32", layers="1", tokens=16)


@pytest.mark.parametrize("packed", ["plain", "fp8"])
@pytest.mark.parametrize("width", SQUARE)
@pytest.mark.parametrize("name", FAMILIES)
def test_logits_are_those_of_transformers(name: str, width: int, packed: str) -> None:
    """transformers #47031, vllm #50727, #47874. In eight bits one scale serves an expert: both halves of gate and up, in either layout."""
    folder = release(name, width, packed)
    right, found = expected(folder), logits(start(folder), [IDS])[0]
    assert float((found - right).abs().max() / (right.max() - right.min())) < 1e-5


@pytest.mark.parametrize("width", [64, 32])
@pytest.mark.parametrize("name", [TURNED, HELD])
def test_one_scale_for_each_expert(name: str, width: int) -> None:
    """[E, 1, 1]: decoded as torch multiplies it, and as the second definition of the format does."""
    release_of = Release.open(release(name, width, "fp8"))
    stored = [one for one in release_of.checkpoint.stored.values() if BANK.fullmatch(one.name)]
    tensors = {key: value for file in release_of.folder.glob("*.safetensors") for key, value in load_file(file).items()}
    assert len(stored) == 4 and all(one.parts["scale"].shape == (EXPERTS, 1, 1) for one in stored)
    for one in stored:
        ours, other = decoded(release_of.folder, one, torch.float32), independent(release_of.checkpoint, one)
        right = tensors[one.name].float() * tensors[f"{one.name}_scale_inv"]
        assert other is not None and torch.equal(ours, right) and torch.equal(other[0], right)


@pytest.mark.parametrize("packed", ["plain", "fp8"])
@pytest.mark.parametrize("width", SQUARE)
@pytest.mark.parametrize("name", FAMILIES)
def test_inspect_says_what_the_shape_does_not(name: str, width: int, packed: str) -> None:
    """And by which rule it was read; nothing where the shape tells."""
    report = inspect(release(name, width, packed))
    found = [finding for finding in report.findings if finding.code == "D0314"]
    assert report.verdict == "sound" and len(found) == bool(SQUARE[width])
    for finding in found:
        assert finding.status == "warn" and finding.subject.endswith(f".layers.*.{place(name)}.experts.{SQUARE[width]}_proj")
        rule = f"taken from the family: {report.model.family} stores [experts, {FAMILIES[name]}]"
        assert finding.found == f"[{EXPERTS}, {HIDDEN}, {HIDDEN}] in 2 tensors: orientation cannot be told from shape, {rule}"


def place(name: str) -> str:
    return "feed_forward" if name.startswith("llama4") else "mlp"


def test_experts_one_by_one_and_scales_of_outputs_tell(folder: Path) -> None:
    """A matrix of its own is [outputs, inputs] in every release; a scale for each output lies along them."""

    def of_outputs(tensors: Tensors, config: dict[str, Any]) -> None:
        for name in [name for name in tensors if BANK.fullmatch(name)]:
            tensors[name] = ("F8_E4M3", tensors[name][1])
            tensors[f"{name}_scale"] = ("F32", [EXPERTS, tensors[name][1][1], 1])

    def one_by_one(tensors: Tensors, config: dict[str, Any]) -> None:
        for name in [name for name in tensors if BANK.fullmatch(name)]:
            _, (_, rows, columns) = tensors.pop(name)
            halves = ("gate_proj", "up_proj") if "gate_up" in name else ("down_proj",)
            bank = name.rpartition(".")[0]
            tensors |= {f"{bank}.{e}.{half}.weight": ("BF16", [rows // len(halves), columns]) for e in range(EXPERTS) for half in halves}

    for number, (edit, told) in enumerate([(None, 1), (of_outputs, 0), (one_by_one, 0)]):
        copy = folder.with_name(f"copy{number}")
        write(copy, release(HELD, 64), edit)
        assert sum(finding.code == "D0314" for finding in inspect(copy).findings) == told, number


def turned(suffix: str) -> Callable[[Release], None]:
    """Banks are read the other way round, as their shape allows."""

    def plant(release_of: Release) -> None:
        for name, located in release_of.tensors.items():
            piece, stored = located.pieces[0]
            if name.startswith("layers.1.") and stored.name.endswith(suffix):
                cut = piece.cut or Cut(target=name)
                cut = replace(cut, transpose=not cut.transpose, axis=3 - cut.axis if cut.of > 1 else cut.axis)
                release_of.tensors[name] = replace(located, pieces=((replace(piece, cut=cut), stored),))

    return plant


@pytest.mark.parametrize(("name", "width", "packed"), [
    *((name, 64, "plain") for name in FAMILIES), (TURNED, 32, "fp8"),
    *(pytest.param(name, 32, "plain", marks=pytest.mark.slow) for name in FAMILIES),
    *(pytest.param(*each, "fp8", marks=pytest.mark.slow) for each in ((TURNED, 64), (HELD, 32))),
])  # fmt: skip
def test_validate_names_the_bank_that_is_right_once_transposed(
    monkeypatch: pytest.MonkeyPatch, name: str, width: int, packed: str
) -> None:  # fmt: skip
    """Read as it is stored it passes, also where the library's own loader takes a square bank for one that need not be turned."""
    folder = release(name, width, packed)
    assert validate(monkeypatch, folder, **LAYERS).first_divergence is None
    first = validate(monkeypatch, folder, turned(f"{SQUARE[width]}_proj"), **LAYERS).first_divergence
    bank = {"down": "down transposed", "gate_up": "gate and up transposed"}[SQUARE[width]]
    rows = ", their rows in turns" if (name, bank) == ("gpt_oss", "gate and up transposed") else ""
    assert first is not None and (first.layer, first.part, first.operator, first.pattern) == (1, "ffn", "experts", f"right with {bank}{rows}")


def test_a_bank_held_turned_equals_what_is_stored_after_a_transpose(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turned while it is read, one expert of it: the tensor, the expert and the change are named. Another factor is no transpose."""
    from day0.engine import loading

    right = loading.fill

    def fill(change: Callable[[torch.Tensor], torch.Tensor]) -> None:
        def wrong(where: Path, located: Any, part: str, out: torch.Tensor) -> None:
            right(where, located, part, out)
            if located.name == "layers.1.ffn.experts.down":
                out[1].copy_(change(out[1].clone()))

        monkeypatch.setattr(loading, "fill", wrong)

    for change, pattern in ((lambda w: w.T, "transposed"), (lambda w: w * 1.5, "scaled by 1.5")):
        fill(change)
        report = validate(monkeypatch, release(HELD, 64), until="weights")
        (finding,) = (finding for finding in report.findings if finding.code == "D0505" and finding.status == "fail")
        assert finding.subject == "layer 1 ffn.experts.down" and "expert 1" in finding.found
        assert finding.hint == ("it equals what is stored after a transpose" if pattern == "transposed" else "")
        assert report.first_divergence is not None and report.first_divergence.pattern == pattern
