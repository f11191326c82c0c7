"""A folder that holds config.json alone: what a family declares stands for the tensors that are not there."""

import shutil
from pathlib import Path

import pytest

from day0.checkpoint.folder import Checkpoint, recognise_all
from day0.checkpoint.layout import LAYOUTS, store
from day0.checkpoint.scheme import Packing, Scheme
from day0.cli.app import main
from day0.engine import footprint
from day0.engine.release import Release
from day0.spec.errors import Day0Error
from day0.stages.inspect import inspect
from tests.zoo import checkpoint, kimi_k3, names

SINGLE = ("gptq", "awq", "int4")  # whose stacks are no stacks on disk
BLOCKS = {"fp8": (), "fp8_block": (128, 128), "nvfp4": (1, 16), "gptq": (1, 32), "awq": (1, 32)}


def alone(name: str, folder: Path) -> Path:
    """`folder` with nothing of the zoo's checkpoint but its configuration."""
    for path in checkpoint(name).glob("*config.json"):
        shutil.copy(path, folder)
    return folder


@pytest.mark.parametrize("name", [*(name for name in names() if "-" not in name), *kimi_k3.SEEDS])
def test_declared_weights_take_the_bytes_of_the_stored_ones(name: str, tmp_path: Path) -> None:
    stored, declared = Release.open(checkpoint(name)), Release.open(alone(name, tmp_path))
    assert declared.checkpoint.config_alone and not stored.checkpoint.config_alone
    assert declared.missing == [] == declared.unclaimed
    dtype = stored.model.dtype
    assert footprint.weights(declared, dtype, "resident") == footprint.weights(stored, dtype, "resident")
    assert footprint.workspace(declared, dtype) == footprint.workspace(stored, dtype)


@pytest.mark.parametrize("name", [name for name in names() if name.startswith("qwen3_moe-")])
def test_experts_are_packed_as_the_configuration_says(name: str, tmp_path: Path) -> None:
    stored, declared = Release.open(checkpoint(name)), Release.open(alone(name, tmp_path))
    for weight, located in stored.tensors.items():
        if located.spec.role == "expert":
            found, piece = declared.tensors[weight].pieces[0][1], located.pieces[0][1]
            assert (found.format, found.block, found.shape[1:]) == (piece.format, piece.block, piece.shape)
            assert found.parts["data"].dtype == piece.parts["data"].dtype


@pytest.mark.parametrize(
    ("form", "shape"),
    [(form, shape) for form in LAYOUTS for shape in [(256, 512), (40, 96), (4, 64, 256)] if len(shape) == 2 or form not in SINGLE],
)
def test_layouts_are_what_the_formats_recognise(form: str, shape: tuple[int, ...]) -> None:
    name = "layers.0.mlp" if form in ("gptq", "awq") else "layers.0.mlp.weight"
    made = store(name, shape, Packing(form, BLOCKS.get(form, (1, 32))), "BF16")
    headers = {part.name: part for part in made.parts.values()}
    config = {"quant_method": "awq", "bits": 4, "group_size": 32} if form == "awq" else {"group_size": 32, "weight_block_size": [128, 128]}
    found = recognise_all(headers, {} if form == "nvfp4" else config)
    assert [*found] == ["layers.0.mlp.weight"]
    again = found["layers.0.mlp.weight"]
    assert (again.format, again.shape, again.parts) == (made.format, made.shape, made.parts)


@pytest.mark.parametrize(
    ("entry", "inside", "outside"),
    [
        ("lm_head", "lm_head", "model.lm_heads"),
        ("gate", "model.layers.3.mlp.gate", "model.layers.3.mlp.gate_proj"),
        ("model.layers.1.self_attn*", "model.layers.1.self_attn.q_proj", "model.layers.11.self_attn.q_proj"),
        ("model.layers.*.self_attn", "model.layers.7.self_attn.q_proj", "model.layers.7.mlp.up_proj"),
        ("re:.*shared_experts.*", "model.layers.2.mlp.shared_experts.up_proj", "model.layers.2.mlp.experts.0.up_proj"),
    ],
)
def test_lists_of_modules_that_are_left_out(entry: str, inside: str, outside: str) -> None:
    scheme = Scheme({"quant_method": "fp8", "weight_block_size": [128, 128], "ignore": [entry]}, {})
    assert scheme.packing([inside], expert=False).format == "plain"
    assert scheme.packing([outside], expert=False) == Packing("fp8_block", (128, 128))


def test_an_expression_that_would_not_end_matches_nothing() -> None:
    scheme = Scheme({"quant_method": "fp8", "weight_block_size": [128, 128], "ignore": ["re:(model.*)*x", "re:[", "re:.*lm_head"]}, {})
    assert scheme.packing(["model." + "layers.1." * 40], expert=False).format == "fp8_block"
    assert scheme.packing(["lm_head"], expert=False).format == "plain"


def test_inspect_says_that_there_is_no_more(tmp_path: Path) -> None:
    report, whole = inspect(alone("deepseek_v3", tmp_path)), inspect(checkpoint("deepseek_v3"))
    assert report.parameters.total == whole.parameters.total and report.parameters.active == whole.parameters.active
    assert [layer.parameters for layer in report.layers] == [layer.parameters for layer in whole.layers]
    assert {finding.code for finding in report.findings if finding.status != "pass"} == {"D0201"}


def test_the_command_answers_yes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    assert main(["inspect", str(alone("qwen3_moe", tmp_path / "model"))]) == 0


def test_what_runs_weights_refuses(tmp_path: Path) -> None:
    folder = alone("llama", tmp_path)
    with pytest.raises(Day0Error, match="holds no weights"):
        Release.open(folder).require_complete()
    with pytest.raises(Day0Error, match="holds no weights"):
        Checkpoint.open(folder).require_sound()


def test_weights_in_another_container_are_no_configuration_alone(tmp_path: Path) -> None:
    (alone("llama", tmp_path) / "pytorch_model.bin").write_bytes(b"")
    assert not Checkpoint.open(tmp_path).config_alone
    assert inspect(tmp_path).verdict == "unsound"
