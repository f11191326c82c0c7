"""Incidents that are planted: each leaves a bundle, and replaying it says what it was."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from day0.engine.bind import Bound
from day0.spec.reports.incident import IncidentReport
from tests.cli.conftest import Done
from tests.zoo import checkpoint

Day0 = Callable[..., Done]
QUESTIONS = ("Where is the other one?", "and then?")
HOW = ("--raw", "--max-new", "8", "--record", "kept")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny model that a test may damage."""
    return Path(shutil.copytree(checkpoint("qwen3_moe"), tmp_path / "tiny"))


def plan(day0: Day0, folder: Path) -> None:
    for command in (("inspect", folder), ("plan-memory", "--context", "64", "--batch", "4", "--dtype", "float32"), ("map-ops",)):
        assert day0(*command).code == 0


def change(folder: Path, edit: Callable[[dict[str, torch.Tensor]], None]) -> None:
    """Other numbers in the shards."""
    for shard in folder.glob("*.safetensors"):
        tensors = load_file(shard)
        edit(tensors)
        save_file(tensors, shard, metadata={"format": "pt"})


@contextmanager
def wrong(op: str, spoil: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    """Every call of an operator goes wrong while this lasts."""
    build = Bound._one

    def spoiled(self: Bound, name: str, *choice: Any) -> Any:
        function = build(self, name, *choice)
        return (lambda *args, **kwargs: spoil(function(*args, **kwargs))) if name == op else function

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bound, "_one", spoiled)
        yield


def replayed(day0: Day0, place: int = 0) -> Any:
    done = day0("replay", f"kept/incident-{place}.yaml", "--json")
    assert done.code == (0 if done.json["verdict"] in ("reproduced", "near-tie flip") else 1)
    assert day0("replay", f"kept/incident-{place}.yaml").out.count(done.json["verdict"])
    return done.json


def test_a_sound_answer_is_reproduced_with_all_that_is_on_record(day0: Day0, folder: Path) -> None:
    plan(day0, folder)
    said = day0("run", *QUESTIONS, *HOW, "--temperature", "0.8", "--json").json["answers"]
    for place in (0, 1):
        found = replayed(day0, place)
        assert found["verdict"] == "reproduced" and found["neighbours"] == 1
        assert found["alone"] == found["together"] == found["recorded"] == said[place]["tokens"]
    kept = IncidentReport.read(Path("kept/incident-0.yaml"))
    row = next(row for row in kept.requests if row.serial == kept.subject)
    assert row.prompt == said[0]["prompt_tokens"] and row.sampling.seed is not None
    assert [len(layer) for layer in row.chosen[0].experts] == [3, 3]  # of two sparse layers
    assert row.chosen[0].batch == [0, 1] and len(row.chosen[0].top) == 5 and (row.chosen[0].margin or 0) > 0


def test_a_numeric_fault_is_located(day0: Day0, folder: Path) -> None:
    """One matrix whose products leave the range of float32."""

    def edit(tensors: dict[str, torch.Tensor]) -> None:
        for name in tensors:
            if name == "model.layers.1.self_attn.o_proj.weight":
                tensors[name] = torch.full_like(tensors[name], 3e38)

    change(folder, edit)
    plan(day0, folder)
    done = day0("run", *QUESTIONS, "--raw", "--max-new", "4")
    assert done.code == 1 and "day0 replay" in done.err
    bundle = next(Path("reports").rglob("incident-0.yaml"))
    found = day0("replay", bundle, "--json")
    assert found.code == 1 and found.json["verdict"] == "numeric fault"
    assert found.json["fault"] == {"layer": 1, "place": "mixer", "phase": "prefill", "op": "linear", "given": False}
    assert "numeric fault: at layer 1 mixer linear" in found.json["line"]


def test_a_near_tie_flips(day0: Day0, folder: Path) -> None:
    """The best token has a twin whose row of the head is the same; rounding decides between them."""
    plan(day0, folder)
    best = day0("run", QUESTIONS[0], "--raw", "--max-new", "1", "--json").json["answers"][0]["tokens"][0]
    twin = best + 1

    def edit(tensors: dict[str, torch.Tensor]) -> None:
        if "lm_head.weight" in tensors:
            tensors["lm_head.weight"][twin] = tensors["lm_head.weight"][best]

    change(folder, edit)
    plan(day0, folder)

    def rounding(y: torch.Tensor) -> torch.Tensor:
        if y.shape[-1] <= twin:
            return y
        y = y.clone()
        y[..., twin] += 1e-6 * y[..., twin].abs()
        return y

    with wrong("linear", rounding):
        assert day0("run", QUESTIONS[0], *HOW).code == 0
    found = replayed(day0)
    assert found["verdict"] == "near-tie flip" and (found["recorded"][0], found["alone"][0]) == (twin, best)
    assert found["margin"] < 1e-4 and found["moved"] <= found["explained"]


def leak(y: torch.Tensor) -> torch.Tensor:
    """A sequence sees what its neighbour computes; one alone is right."""
    return y + y.roll(1, 0) if len(y) == 2 else y


def test_a_result_that_depends_on_the_company(day0: Day0, folder: Path) -> None:
    plan(day0, folder)
    with wrong("paged_attention", leak):
        assert day0("run", *QUESTIONS, *HOW).code == 0
        found = replayed(day0)
    assert found["verdict"] == "batch-dependent" and found["together"] == found["recorded"] != found["alone"]
    assert found["moved"] > found["explained"]


def test_what_does_not_come_again(day0: Day0, folder: Path) -> None:
    """A fault that was there while the request was answered and is gone."""
    plan(day0, folder)
    with wrong("experts", lambda y: 1.5 * y):
        assert day0("run", *QUESTIONS, *HOW).code == 0
    found = replayed(day0)
    assert found["verdict"] == "not reproduced" and found["alone"] == found["together"] != found["recorded"]


def test_bundles_that_cannot_be_replayed(day0: Day0, folder: Path) -> None:
    plan(day0, folder)
    assert day0("run", QUESTIONS[0], *HOW).code == 0
    told = yaml.safe_load(Path("kept/incident-0.yaml").read_text())
    told["requests"][0]["prompt"] = None
    Path("long.yaml").write_text(yaml.safe_dump(told))
    assert "too many to keep" in day0("replay", "long.yaml").error
    Path("none.yaml").write_text(json.dumps({"schema": "day0.run/v1"}))
    assert "expected schema day0.incident/v1" in day0("replay", "none.yaml").error
    change(folder, lambda tensors: tensors.update({next(iter(tensors)): next(iter(tensors.values())).float()}))
    done = day0("replay", "kept/incident-0.yaml")
    assert done.code == 2 and ("has changed" in done.error or "stale" in done.error)


def test_assertions_name_the_first_call_that_breaks_them(day0: Day0, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan(day0, folder)
    monkeypatch.setenv("DAY0_ASSERT", "1")
    assert day0("run", *QUESTIONS, "--raw", "--max-new", "4").code == 0
    for op, spoil, said in (
        ("experts", lambda y: y * float("nan"), "layer 0 ffn prefill: experts returned y with NaN"),
        ("rotary", lambda y: y[:-1], "rotary returned y of shape"),
        ("route", lambda chosen: (chosen[0], chosen[1] + 100), "route chose expert"),
        ("route", lambda chosen: (-chosen[0], chosen[1]), "gave an expert a negative factor"),
    ):
        with wrong(op, spoil):
            done = day0("run", QUESTIONS[0], "--raw", "--max-new", "4")
        assert done.code == 2 and said in done.error
    assert IncidentReport.read(next(Path("reports").rglob("incident-0.yaml"))).reason.startswith("the engine failed: Day0Error")
