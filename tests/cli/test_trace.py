"""What one pass computes is written down, and two passes are lined up: executors, types, and dumps of other programs."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("transformers")

import yaml
from safetensors.torch import load_file, save_file

from day0.engine.release import Release
from day0.stages import trace as stage
from tests.cli.conftest import Done
from tests.zoo import checkpoint

Day0 = Callable[..., Done]


@pytest.fixture
def chain(day0: Day0) -> Path:
    """The folder of the reports, up to map-ops."""
    for command in (("inspect", checkpoint("qwen3_moe")), ("plan-memory", "--context", "64"), ("map-ops",)):
        assert day0(*command).code == 0
    return next(Path("reports").rglob("map-ops.yaml")).parent


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_both_executors_agree_and_a_wrong_layer_stands_out(day0: Day0, chain: Path, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for executor in ("native", "community"):
        assert day0("trace", "--ids", "5,6,7,8,9,10", "--dtype", dtype, "--executor", executor).code == 0
    right = chain / f"trace-community-{dtype}"
    done = day0("diff", chain / f"trace-native-{dtype}", right, "--json")
    assert done.code == 0 and done.json["first"] is None
    assert [row["part"] for row in done.json["rows"]] == ["embed", *["mixer", "ffn", "stream"] * 3, "logits"]
    opened = Release.open

    def wrong(folder: Path) -> Release:
        release = opened(folder)
        layers = list(release.model.layers)
        layers[1] = replace(layers[1], mixer=replace(layers[1].mixer, scale=1.0))
        release.model = replace(release.model, layers=tuple(layers))
        return release

    monkeypatch.setattr(stage.Release, "open", wrong)
    assert day0("trace", "--ids", "5,6,7,8,9,10", "--dtype", dtype, "--out", "wrong").code == 0
    done = day0("diff", "wrong", right, "--json")
    assert done.code == 1 and (done.json["first"]["layer"], done.json["first"]["part"]) == (1, "mixer")
    assert "part at layer 1 mixer" in day0("diff", "wrong", right).out


def test_a_trace_is_bounded(day0: Day0, chain: Path) -> None:
    assert day0("trace", "--layer", "1", "--full", "--out", "whole").code == 0
    told = yaml.safe_load(Path("whole/trace.yaml").read_text())
    kept = load_file("whole/trace.safetensors")
    assert {(row["layer"], row["kept"] == row["shape"][0] * row["shape"][1]) for row in told["rows"]} == {(None, True), (1, True)}
    assert kept["1.stream"].float().square().mean().sqrt().item() == pytest.approx(told["rows"][3]["rms"], rel=1e-6)
    assert day0("trace", "--out", "sampled").code == 0
    assert max(value.numel() for value in load_file("sampled/trace.safetensors").values()) == 4096 < kept["logits"].numel()
    assert day0("diff", "sampled", "whole").code == 0  # a sample lines up with all of it
    keeper = stage.Keeper([], full=True, limit=100)
    with pytest.raises(stage.Day0Error, match="larger than"):
        keeper.see(None, "logits", kept["logits"])


@pytest.mark.parametrize("shift", [0, 1])
def test_a_dump_with_the_stream_in_two_parts_and_a_capture_offset(day0: Day0, chain: Path, shift: int) -> None:
    """Engines keep what a layer adds apart from the residual, and count what they capture from 0 or from 1."""
    assert day0("trace", "--dtype", "float32", "--full", "--out", "ours").code == 0
    kept, dump = load_file("ours/trace.safetensors"), {}
    for layer in range(3):
        added = kept[f"{layer}.ffn"]
        dump |= {f"{layer + shift}.hidden": added.clone(), f"{layer + shift}.residual": kept[f"{layer}.stream"] - added}
    save_file({name: value.reshape(64, -1) for name, value in dump.items()}, "dump.safetensors")
    done = day0("diff", "ours", "dump.safetensors", "--json")
    offset = ["layer i of B equals layer i-1 of A: capture offset"] if shift else []
    assert done.code == 0 and done.json["notes"] == ["the stream of B is hidden + residual", *offset]
    wrong = {name: value * (1 + (name == f"{2 + shift}.residual")) for name, value in dump.items()}
    save_file(wrong, "wrong.safetensors")
    done = day0("diff", "ours", "wrong.safetensors", "--json")
    assert done.code == 1 and (done.json["first"]["layer"], done.json["first"]["part"]) == (2, "stream")


@pytest.mark.parametrize(("command", "problem"), [
    (("trace", "--ids", "1,x"), "cannot read token ids"), (("trace", "--ids", "1,999"), "outside the vocabulary"),
    (("trace", "--ids", "1", "--prompt", "a"), "exclude each other"), (("trace", "--ids", ",".join(["1"] * 5000)), "more than the model's context"),
    (("trace", "--layer", "9"), "there is no layer 9"), (("diff", "nothing.safetensors", "nothing"), "not a trace"),
])  # fmt: skip
def test_what_cannot_be_traced(day0: Day0, chain: Path, command: tuple[str, ...], problem: str) -> None:
    done = day0(*command)
    assert done.code == 2 and problem in done.error


def test_other_tokens_are_not_compared(day0: Day0, chain: Path) -> None:
    assert day0("trace", "--ids", "1,2", "--out", "a").code == day0("trace", "--ids", "2,1", "--out", "b").code == 0
    assert "other token ids" in day0("diff", "a", "b").error
