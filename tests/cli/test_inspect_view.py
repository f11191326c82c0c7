"""The answer of inspect as a person sees it: on a wide and on a narrow terminal, with and without colour."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.checkpoint.shards import write_release
from tests.cli.conftest import Done
from tests.zoo import checkpoint

Day0 = Callable[..., Done]


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_the_terminal(day0: Day0, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    done = day0("inspect", checkpoint("qwen3_next"), "--layers", "--tensors")
    assert max(map(len, done.out.splitlines())) <= width
    assert "\x1b" not in done.out


def test_kinds_of_layers_have_signs_of_their_own(day0: Day0) -> None:
    lines = day0("inspect", checkpoint("qwen3_next")).out.splitlines()
    kinds = [(layer["mixer"], layer["ffn"]) for layer in day0("inspect", checkpoint("qwen3_next"), "--json").json["layers"]]
    signs = dict(zip(dict.fromkeys(kinds), "░▓▒█", strict=False))
    assert len(signs) > 1 and {mixer for mixer, _ in signs} == {"gdn", "gated_attention"}
    assert "".join(signs[kind] for kind in kinds) in lines
    for (mixer, ffn), sign in signs.items():
        assert any(line.startswith(f"{sign} {kinds.count((mixer, ffn))} × {mixer} + {ffn}") for line in lines)


def test_bars_are_as_long_as_their_share(day0: Day0, model: Path) -> None:
    done = day0("inspect", model)
    report = day0("inspect", model, "--json").json["bytes"]
    role, held = max(report["by_role"].items(), key=lambda item: item[1])
    (line,) = [line for line in done.out.splitlines() if line.startswith(f"{role} ")]
    assert abs(line.count("█") - 40 * held / report["total"]) <= 1


def test_layers_and_tensors_on_demand(day0: Day0, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    plain, full = day0("inspect", model).out, day0("inspect", model, "--layers", "--tensors").out
    assert full.startswith(plain)
    layers = len(day0("inspect", model, "--json").json["layers"])
    shown = [line.split()[0] for line in full[len(plain) :].splitlines() if line[:1] == " "]
    assert shown == [str(layer) for layer in range(layers)]
    index = json.loads((model / "model.safetensors.index.json").read_text())["weight_map"]
    table = full[full.index("tensors ") :].splitlines()[2:]
    assert sum(int(line.split()[1]) for line in table) == len(index)


def test_many_findings_of_one_code_are_told_once(day0: Day0, tmp_path: Path) -> None:
    """Twelve tensors that the index names and no shard holds."""
    folder = tmp_path / "holey"
    write_release(folder, [{"a.weight": ("F32", [4])}])
    index = folder / "model.safetensors.index.json"
    data = json.loads(index.read_text())
    data["weight_map"] |= {f"{letter}.other": "model-00001-of-00001.safetensors" for letter in "bcdefghijklm"}
    index.write_text(json.dumps(data))
    done = day0("inspect", folder)
    assert done.code == 1
    told = [finding for finding in day0("inspect", folder, "--json").json["findings"] if finding["code"] == "D0205"]
    words = " ".join(done.out.split())  # without the breaks of a narrow terminal
    assert words.count("day0 explain D0205") == 1
    assert len(told) <= 3 or f"and {len(told) - 3} more like it (--json lists all)" in words
