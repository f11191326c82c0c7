"""A target that lacks grouped products, top-k and 8-bit floats: its map says so in advance, and what runs is what the map says."""

from pathlib import Path
from typing import Any

import pytest
import torch

from day0.engine.batch import Engine
from day0.engine.score import score
from day0.engine.watch import BETWEEN, Emulation
from day0.spec.errors import Day0Error
from day0.spec.reports.map_ops import MapOpsReport
from tests.engine.emulated import POOR, PROMPTS, manifest, mapped, start
from tests.engine.opened import inspected, load, processor
from tests.zoo import checkpoint

MIXTURES = [("deepseek_v3-fp8", "bfloat16"), ("glm4_moe", "bfloat16"), ("qwen3_moe-fp8", "float32"), ("gpt_oss", "float32")]


def predicted(report: MapOpsReport) -> dict[Any, set[str]]:
    """(place, operator) → torch operators that its calls ask for."""
    found: dict[Any, set[str]] = {}
    for site in report.sites:
        assert site.asks is not None
        found.setdefault(((site.layer, site.place, site.phase), site.op), set()).update(report.asks[site.asks].operators)
    return found


def watched(engine: Engine) -> Emulation:
    """Runs prompts in chunks, one after them and side by side; returns who called what."""
    mode = engine.forward.mode
    assert isinstance(mode, Emulation)
    for prompts in (PROMPTS, PROMPTS[:1]):
        score(engine.forward, engine.state, prompts, chunk=16, decode_from=42)
    return mode


@pytest.mark.parametrize(("name", "dtype"), MIXTURES)
def test_the_operators_that_ran_are_those_predicted(name: str, dtype: str, tmp_path: Path) -> None:
    folder = checkpoint(name)
    report = mapped(folder, manifest(tmp_path), dtype)
    assert (report.verdict, report.emulated) == ("complete", True)
    ran, told = watched(start(folder, report, dtype)).operators, predicted(report)
    calls = {caller for caller in ran if caller != BETWEEN}
    head = ((None, "", "prefill"), "linear")  # logits of a prompt's end are computed by the decode path
    assert calls == set(told) - {head}
    assert {caller: ran[caller] - told[caller] for caller in calls if not ran[caller] <= told[caller]} == {}
    host = {((site.layer, site.place, site.phase), site.op) for site in report.sites if site.status == "host fallback"}
    for where in (host, calls - host):
        assert set().union(*(ran[caller] for caller in where)) == set().union(*(told[caller] for caller in where if caller != head)), where
    assert not set().union(*(ran[caller] for caller in calls - host)) & set(POOR)
    assert ran[BETWEEN] <= {operator for row in report.between for operator in row.operators}


def test_the_map_says_in_advance_what_falls_back(tmp_path: Path) -> None:
    report = mapped(checkpoint("deepseek_v3-fp8"), manifest(tmp_path))
    reasons = {row.op: row.reason for row in report.fallbacks if row.status == "host fallback"}
    assert reasons["route"] == "poor has no aten::topk"
    assert {op for op, reason in reasons.items() if "float8_e4m3fn" in reason} >= {"linear", "experts", "absorb_query", "expand_value"}
    assert {row.type: row.cast for row in report.types}["float8_e4m3fn"] == "none"
    assert report.devices["host"].calls == sum(site.status == "host fallback" for site in report.sites)
    assert 0 < report.shares["decode"]["host fallback"] < 1


@pytest.mark.parametrize("name", ["deepseek_v3-fp8", "glm4_moe"])
def test_answers_are_those_of_the_processor(name: str, tmp_path: Path) -> None:
    """A fallback changes who computes, not what: the logits are equal where the same functions run, and close where others do."""
    folder = checkpoint(name)
    poor = start(folder, mapped(folder, manifest(tmp_path), "float32"), "float32")
    rich = start(folder, mapped(folder, "cpu", "float32"), "float32")
    for found, right in zip(*(score(one.forward, one.state, PROMPTS, chunk=16) for one in (poor, rich)), strict=True):
        torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-4)


def test_what_the_manifest_lacks_raises(tmp_path: Path) -> None:
    """The processor's own map under a poorer manifest: the emulation is not a matter of the map's good will."""
    folder = checkpoint("glm4_moe")
    report = mapped(folder, "cpu").model_copy(update={"target": manifest(tmp_path)})
    with pytest.raises(Day0Error, match="poor has no aten::topk"):
        watched(start(folder, report))


def test_without_a_host_the_call_is_refused(tmp_path: Path) -> None:
    alone = manifest(tmp_path, host_fallback={"has": "none", "source": "this test"})
    report = mapped(checkpoint("glm4_moe"), alone)
    assert report.verdict == "incomplete"
    assert report.missing == ["route: poor has no aten::topk, and no host may help"]
    assert {site.status for site in report.sites if site.op == "route"} == {"refused"}


def test_the_processors_own_manifest_refuses_nothing() -> None:
    folder = checkpoint("qwen3_moe-fp8")
    report = mapped(folder, "cpu")
    assert "host fallback" not in report.summary and report.unverified == 0
    assert watched(start(folder, report)).operators


def test_a_map_is_what_runs() -> None:
    """On the processor, every function that the engine binds is the one that the map names."""
    from day0.engine.bind import Bound
    from day0.engine.packed import Workspace
    from day0.spec.registry import kernels, ops
    from day0.stages.map_ops import map_ops
    from tests.plans import quick_plan

    for name in ("llama", "deepseek_v3", "qwen3_next", "gpt_oss"):
        found = inspected(checkpoint(name))
        report = map_ops(found, quick_plan(found, processor(), load()), processor())
        bound = Bound(report.sites, Workspace(0, torch.device("cpu")))
        for site in report.sites:
            right = kernels().get(site.kernel).fn if site.kernel else ops().get(site.op).reference
            assert getattr(bound.at(site.layer, site.place, site.phase), site.op) is right, site.name
