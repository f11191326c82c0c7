"""What one pass computes is written down, and two passes are lined up: executors, types, and dumps of other programs."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

import torch
import yaml
from safetensors.torch import load_file, save_file
from transformers import LlamaForCausalLM

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

    def wrong(*place: Any) -> Release:
        release = opened(*place)
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
    """nnsight #630, #337, TorchSpec #87: engines keep what a layer adds apart from the residual, and count what they capture from 0 or 1."""
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


def ranks_of(folder: Path, ids: list[int], spoil: Callable[[int, str, torch.Tensor], torch.Tensor] = lambda _rank, _name, value: value) -> Path:
    """What two ranks of an engine that cuts every layer would dump, from what transformers computes: each has half of the inner axis of the
    last product of attention and of the network, the stream is whole on both, and each has half of the vocabulary."""
    model = LlamaForCausalLM.from_pretrained(checkpoint("llama"), dtype=torch.float32)
    inner: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
    for index, layer in enumerate(model.model.layers):
        for part, last in (("mixer", layer.self_attn.o_proj), ("ffn", layer.mlp.down_proj)):
            last.register_forward_hook(lambda m, given, _made, at=f"{index}.{part}": inner.update({at: (given[0][0], m.weight)}))
    with torch.no_grad():
        made = model(torch.tensor([ids]), output_hidden_states=True)
        streams = [made.hidden_states[0][0]]
        for index in range(len(model.model.layers)):
            streams.append(streams[-1] + sum(x @ weight.T for x, weight in (inner[f"{index}.{part}"] for part in ("mixer", "ffn"))))
    folder.mkdir()
    for rank in range(2):
        dump = {"embed": streams[0], "logits": made.logits[0].chunk(2, -1)[rank]} | {f"{i}.stream": s for i, s in enumerate(streams[1:])}
        dump |= {at: x.chunk(2, -1)[rank] @ weight.chunk(2, -1)[rank].T for at, (x, weight) in inner.items()}
        kept = {name: spoil(rank, name, value).contiguous().clone() for name, value in dump.items()}
        save_file(kept, folder / f"rank{rank}.safetensors")
    return folder


def test_two_ranks_against_one_card(day0: Day0) -> None:
    """A sum that was cut, a stream that both have, and columns that lie side by side; and the rank that goes astray."""
    for command in (("inspect", checkpoint("llama")), ("plan-memory", "--context", "64"), ("map-ops",)):
        assert day0(*command).code == 0
    ids = list(range(5, 25))
    assert day0("trace", "--ids", ",".join(map(str, ids)), "--dtype", "float32", "--full", "--out", "card").code == 0
    done = day0("diff", "card", ranks_of(Path("ranks"), ids), "--json")
    said = "B is 2 ranks: embed, stream whole on each; logits side by side along axis 1; ffn, mixer summed"
    assert done.code == 0 and done.json["notes"] == [said]
    assert len(done.json["rows"]) == 2 + 3 * len({row["layer"] for row in done.json["rows"]} - {None})
    for at, rank, changed, blamed in (
        ("1.mixer", 1, lambda x: 1.05 * x, None), ("1.stream", 1, lambda x: x + 0.1 * x.roll(1, 0), 1), ("logits", 0, lambda x: x.flip(-1), 0),
    ):  # fmt: skip
        folder = ranks_of(Path(f"wrong-{at}"), ids, lambda r, name, x, a=at, k=rank, c=changed: c(x) if (r, name) == (k, a) else x)
        done = day0("diff", "card", folder, "--json")
        first = done.json["first"]
        assert done.code == 1 and at.endswith(first["part"]) and first["layer"] == (None if at == "logits" else 1) and first["rank"] == blamed
    assert "of rank 0" in day0("diff", "card", folder).out


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
