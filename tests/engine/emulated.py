"""A processor that lacks some of torch, for tests of fallbacks."""

from pathlib import Path

import torch
import yaml

from day0.engine.batch import Engine
from day0.engine.release import Release
from day0.engine.targets import find_target
from day0.spec.reports.map_ops import MapOpsReport
from day0.stages.map_ops import map_ops
from tests.engine.opened import inspected, load, processor
from tests.plans import quick_plan

PROMPTS = [[7, 3, 5, 2, 9, 4, 6, 8, 1, 3, 2] * 4, [3, 5, 4]]
POOR = ("topk", "_grouped_mm", "_scaled_mm", "_scaled_grouped_mm")  # operators that it lacks


def manifest(folder: Path, lacks: tuple[str, ...] = POOR, types: tuple[str, ...] = ("float8_e4m3fn", "float8_e8m0fnu"), **more: object) -> str:
    """Writes the processor's manifest without some operators and number types; returns its path."""
    given = find_target("cpu").model_dump(mode="json", exclude_defaults=True)
    given |= {"name": "poor", "operators": {name: {"has": "none", "source": "this test"} for name in lacks}, **more}
    given["types"] |= {name: {"cast": "none", "matrix": "none", "source": "this test"} for name in types}
    path = folder / "poor.yaml"
    path.write_text(yaml.safe_dump(given))
    return str(path)


def mapped(released: Path, target: str, dtype: str = "bfloat16", **how: bool) -> MapOpsReport:
    """The map of a checkpoint for a target that this processor emulates."""
    plan = quick_plan(inspected(released), processor(), load(dtype=dtype, chunk=16))
    return map_ops(inspected(released), plan, processor(), find_target(target), emulate=True, **how)


def start(released: Path, report: MapOpsReport, dtype: str = "bfloat16") -> Engine:
    """An engine that obeys the map."""
    plan = quick_plan(inspected(released), processor(), load(dtype=dtype, chunk=16))
    return Engine.start(Release.open(released), plan, report, None, torch.device("cpu"))
