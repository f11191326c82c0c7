"""A model that is validated after one thing in it was made wrong on purpose."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from day0.engine.bind import Bound
from day0.engine.release import Release
from day0.spec.model import PartSpec
from day0.spec.registry import backends
from day0.spec.reports.inspect import InspectReport
from day0.spec.reports.map_ops import MapOpsReport
from day0.spec.reports.plan_memory import PlanMemoryReport
from day0.spec.reports.validate import ValidateReport
from day0.spec.workload import Workload
from day0.stages import validate as stage
from day0.stages.inspect import inspect
from day0.stages.map_ops import map_ops
from tests.plans import quick_plan

Fault = Callable[[Release], None]
Reports = tuple[InspectReport, PlanMemoryReport, MapOpsReport]


@cache
def reports(folder: Path, dtype: str | None = None, vision: bool | None = None) -> Reports:
    """What the stages before say about a model on this processor."""
    machine = backends().get("cpu").probe()
    inspected = inspect(folder)
    plan = quick_plan(inspected, machine, Workload(dtype=dtype, vision=vision))
    return inspected, plan, map_ops(inspected, plan, machine)


def validate(
    monkeypatch: pytest.MonkeyPatch, folder: Path, fault: Fault | None = None, vision: bool | None = None, **wanted: Any
) -> ValidateReport:  # fmt: skip
    """The report; `fault` changes the release as our engine reads it, the reference reads the folder as it is."""
    before = reports(folder) if vision is None else reports(folder, vision=vision)

    class Planted(Release):
        @classmethod
        def open(cls, folder: Path) -> Release:
            release = Release.open(folder)
            if fault:
                fault(release)
            return release

    monkeypatch.setattr(stage, "Release", Planted)
    return stage.validate(*before, **wanted)


def wrong_kernel(monkeypatch: pytest.MonkeyPatch, op: str, factor: float) -> None:
    """Every kernel of an operator gives `factor` times what is right; its reference stays as it is."""
    own = Bound._one

    def one(self: Bound, name: str, kernel: str | None, decode: bool) -> Any:
        function = own(self, name, kernel, decode)
        return function if name != op or kernel is None else lambda *args, **named: function(*args, **named) * factor

    monkeypatch.setattr(Bound, "_one", one)


def part(layer: int, place: str, change: Callable[[Any], PartSpec]) -> Fault:
    """Another spec of one part of one layer."""

    def plant(release: Release) -> None:
        layers = list(release.model.layers)
        layers[layer] = replace(layers[layer], **{place: change(getattr(layers[layer], place))})
        release.model = replace(release.model, layers=tuple(layers))

    return plant


def exchanged(one: str, other: str) -> Fault:
    """Two weights in each other's place."""

    def plant(release: Release) -> None:
        a, b = release.tensors[one], release.tensors[other]
        release.tensors[one], release.tensors[other] = replace(a, pieces=b.pieces), replace(b, pieces=a.pieces)

    return plant


def other_scale(name: str, donor: str) -> Fault:
    """A weight (its first expert) with the scales of another one of its shape (of its last expert)."""

    def plant(release: Release) -> None:
        found, given = release.tensors[name].pieces[0][1], release.tensors[donor].pieces[-1][1]
        wrong = found._replace(parts={**found.parts, "scale": given.parts["scale"]})
        piece = release.tensors[name].pieces[0][0]
        release.tensors[name] = replace(release.tensors[name], pieces=((piece, wrong), *release.tensors[name].pieces[1:]))

    return plant
