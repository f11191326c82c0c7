"""The inspect stage and its command, on releases whose figures are known from elsewhere."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

from day0.cli.app import main
from day0.engine.release import Release
from day0.spec.reports.inspect import InspectReport
from day0.stages.inspect import inspect
from tests.checkpoint.shards import shard_name
from tests.zoo import checkpoint, names
from tests.zoo import folder as files
from tests.zoo.family import catalog

RELEASED = Path(__file__).parents[2].parent / "shared" / "models" / "tiny-dsv3"
needs_release = pytest.mark.skipif(not RELEASED.is_dir(), reason="the released tiny model is not on this machine")


def tensors(folder: Path) -> dict:
    return {name: tensor for file in sorted(folder.glob("model-*.safetensors")) for name, tensor in load_file(file).items()}


@pytest.mark.parametrize("name", names())
def test_zoo(name: str) -> None:
    """Bytes and weights as safetensors counts them; every tensor claimed, every key read."""
    folder = checkpoint(name)
    report, stored = inspect(folder), tensors(folder)
    known = {"D0304"} | ({"D0313"} if name == "qwen4_exp" else set())  # prediction layers declared, none stored; norms drawn around one
    assert {finding.code for finding in report.findings if finding.status != "pass"} <= known
    assert report.verdict == "sound" and report.model.family and report.config.unread == {}
    assert report.bytes.total == sum(tensor.numel() * tensor.element_size() for tensor in stored.values())
    for division in (report.bytes.by_dtype, report.bytes.by_format, report.bytes.by_role):
        assert sum(division.values()) == report.bytes.total
    family = catalog()[name]
    plain = files.scheme(family).unpack(stored, family.packing) if family.packing else stored
    release = Release.open(folder)
    unused = [re.compile(pattern) for pattern in (*release.model.unused, *release.family.names.ignored)]
    weights = sum(tensor.numel() for key, tensor in plain.items() if not any(pattern.search(key) for pattern in unused))
    apart = report.parameters.prediction + sum(report.parameters.towers.values())
    padded = any(piece.cut and piece.cut.padded for located in release.tensors.values() for piece, _ in located.pieces)
    assert padded or report.parameters.total + apart == weights
    config = json.loads((folder / "config.json").read_text())
    text = config.get("text_config", config)
    assert len(report.layers) == text.get("num_hidden_layers", 2 * text.get("num_layers", 0))
    assert report.tokenizer and report.tokenizer.highest_id is not None and report.template


def test_active_parameters() -> None:
    """Of the routed experts, top-k of E."""
    folder = checkpoint("qwen3_moe")
    config = json.loads((folder / "config.json").read_text())
    report = inspect(folder)
    experts = sum(tensor.numel() for key, tensor in tensors(folder).items() if ".experts." in key)
    idle = experts * (config["num_experts"] - config["num_experts_per_tok"]) // config["num_experts"]
    assert report.parameters.active == report.parameters.total - idle


@needs_release
def test_released_tiny_model(tmp_path: Path) -> None:
    report = inspect(RELEASED, hash=True)
    assert report.verdict == "sound" and report.model.family == "deepseek_v3"
    assert [(layer.mixer, layer.ffn) for layer in report.layers] == [("mla", "dense_ffn")] + [("mla", "moe_ffn")] * 3
    assert report.layers[1].experts == 8 and report.layers[1].top_k == 2
    report.write(tmp_path / "inspect.yaml")
    assert InspectReport.read(tmp_path / "inspect.yaml") == report
    assert all(file.sha256 for file in report.files)


def run(*arguments: str) -> int:
    return main(list(arguments))


def copy(name: str, target: Path) -> Path:
    target.mkdir()
    for file in checkpoint(name).iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    return target


def test_command_prints_json_and_leaves_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("inspect", str(checkpoint("qwen3_moe")), "--reports", str(tmp_path), "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["model"]["family"] == "qwen3_moe" and printed["parameters"]["total"] > printed["parameters"]["active"]
    assert printed["bytes"]["total"] and printed["layers"] and isinstance(printed["findings"], list)
    assert InspectReport.read(tmp_path / "qwen3_moe" / "this-machine" / "inspect.yaml").to_dict() == printed


def test_table_on_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("inspect", str(checkpoint("deepseek_v3")), "--reports", str(tmp_path)) == 0
    shown = capsys.readouterr()
    assert "deepseek_v3 is sound" in shown.out and "mla + moe_ffn" in shown.out and "Next: day0 plan-memory" in shown.err


@pytest.mark.parametrize(
    ("damage", "code", "word"),
    [("truncate", "D0110", "truncated"), ("remove", "D0203", "absent"), ("index", "D0202", "cannot be used")],
)
def test_damage_exits_1(tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str, code: str, word: str) -> None:
    folder = copy("llama", tmp_path / "llama")
    victim = folder / shard_name(2, 2)
    if damage == "truncate":
        victim.write_bytes(victim.read_bytes()[:-7])
    elif damage == "remove":
        victim.unlink()
    else:
        (folder / "model.safetensors.index.json").write_text("{")
    assert run("inspect", str(folder), "--reports", str(tmp_path / "reports"), "--json") == 1
    failed = [finding for finding in json.loads(capsys.readouterr().out)["findings"] if finding["status"] == "fail"]
    assert [finding["code"] for finding in failed] == [code] and word in failed[0]["found"] and failed[0]["hint"]
    assert InspectReport.read(tmp_path / "reports" / "llama" / "this-machine" / "inspect.yaml").verdict == "unsound"


@pytest.mark.parametrize(
    ("content", "word"),
    [(None, "no config.json"), ("{", "not valid JSON"), ("[1]", "expected a JSON object"), ("absent", "no such folder")],
)
def test_nothing_to_look_at_is_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, word: str) -> None:
    folder = tmp_path / "model"
    if content != "absent":
        folder.mkdir()
    if content not in (None, "absent"):
        (folder / "config.json").write_text(content)
    assert run("inspect", str(folder), "--reports", str(tmp_path / "reports")) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and word in shown.err and str(folder) in shown.err and "hint:" in shown.err
    assert not (tmp_path / "reports").exists()


def test_explain_prints_a_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explain", "D0110") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("D0110") and "Why:" in shown and "Remedy:" in shown


def test_needs_no_torch() -> None:
    code = (
        "import sys; from pathlib import Path; from day0.stages.inspect import inspect; "
        f"inspect(Path({str(checkpoint('llama'))!r})); print('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
