"""What the community's class calls is found without weights: every class of the zoo is traced, and its arithmetic is that of our map."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from day0.checkpoint.folder import Checkpoint
from day0.engine.targets import find_target
from day0.spec.registry import ops
from day0.spec.reports.discovered import DiscoveredReport
from day0.spec.workload import Workload
from day0.stages.discover import discover
from day0.stages.inspect import inspect
from day0.stages.machines import find_machine
from day0.stages.map_ops import map_ops
from tests.engine.emulated import manifest
from tests.plans import quick_plan
from tests.zoo import checkpoint, names

TOKENS = 20
PLAIN = ["llama", "qwen3_moe", "gpt_oss", "glm4_moe", "minimax_m2", "olmoe"]  # attention is what it seems: no latents
SPARSE = {"deepseek_v32": "index_scores", "qwen3_next": "delta_rule", "kimi_linear": "delta_rule", "nemotron_h": "selective_scan",
          "minimax_text_01": "lightning_attention", "glm5_next": "hyper_mix"}  # fmt: skip


def traced(folder: Path, target: str = "cpu") -> DiscoveredReport:
    return discover(Checkpoint.open(folder), find_target(target), "bfloat16", TOKENS)


CLASSES = [pytest.param(name, marks=[] if name in SPARSE else [pytest.mark.slow]) for name in names() if "-" not in name]


@pytest.mark.parametrize("name", CLASSES)
def test_every_class_can_be_traced_without_weights(name: str) -> None:
    report = traced(checkpoint(name))
    found = {row.op for row in report.rows}
    assert found >= {"linear", "embedding", "attention"} and found - {""} <= set(ops().names())
    assert {row.phase for row in report.rows} == {"prefill", "decode"}
    assert SPARSE.get(name, "linear") in found
    for phase in ("prefill", "decode"):
        assert sum(row.share for row in report.rows if row.phase == phase) == pytest.approx(1)


@pytest.mark.parametrize("name", PLAIN)
def test_its_arithmetic_is_that_of_our_map(name: str) -> None:
    """Projections, router and experts by torch's count of the class, and by ours of the parts."""
    found, machine = inspect(checkpoint(name)), find_machine("cpu")
    load: dict[str, Any] = {"context": TOKENS, "batch": 1, "chunk": TOKENS, "dtype": "bfloat16"}
    ours = map_ops(found, quick_plan(found, machine, Workload(**load)), machine)
    for phase in ("prefill", "decode"):
        own = sum(site.flops for site in ours.sites if site.phase == phase and site.op in ("linear", "experts"))
        theirs = sum(row.flops for row in traced(checkpoint(name)).rows if row.phase == phase and row.op in ("linear", "route", "experts"))
        assert theirs == pytest.approx(own, rel=0.02), phase


def test_a_model_that_no_family_reads(tmp_path: Path) -> None:
    """Its model_type is unknown to everyone; the class is the one that its configuration names. No weights are there."""
    config = json.loads((checkpoint("qwen3_moe") / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"model_type": "brandnew"}))
    report = traced(tmp_path, manifest(tmp_path, lacks=("topk", "silu"), types=()))
    assert report.model == "Qwen3MoeForCausalLM"
    lacking = {row.op: row for row in report.rows if row.status == "host fallback"}
    assert {op: row.evidence for op, row in lacking.items()} == {"route": "poor has no aten::topk", "gated_activation": "poor has no aten::silu"}
    assert lacking["gated_activation"].composed == ["aten::silu can be composed from sigmoid, mul: x * x.sigmoid()"]
