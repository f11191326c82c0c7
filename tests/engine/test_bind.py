"""The map that was written is the map that runs: in every place, for every operator, the function that the map names and no other."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from day0.engine.batch import Engine
from day0.engine.bind import Bound, Place, Stopwatch
from day0.engine.packed import Group, Workspace
from day0.engine.release import Release
from day0.engine.score import score
from day0.spec.errors import Day0Error
from day0.spec.packed import Packed
from day0.spec.registry import kernels, ops
from day0.spec.reports.map_ops import MapOpsReport
from day0.stages.map_ops import map_ops
from tests.engine.opened import CPU, assembled, expected, families_first, inspected, load, mixed, planned, processor
from tests.engine.test_logits import TOLERANCE
from tests.zoo import checkpoint, names

Made = tuple[Place, str, str | None, bool]  # place, operator, kernel, whether it was given decoded weights


class Observer:
    """Every function that the registries hand out tells when it is called, and every bound operator where."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: set[Made] = set()
        self._here: list[tuple[Place, str, bool]] = []
        for name, impl in list(kernels().items()):
            monkeypatch.setitem(kernels()._loaded, name, replace(impl, fn=self._told(name, impl.fn)))
        for name, op in list(ops().items()):
            monkeypatch.setitem(ops()._loaded, name, replace(op, reference=self._told(None, op.reference)))

    def _told(self, kernel: str | None, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            place, op, packed = self._here[-1]
            assert not any(isinstance(value, Packed) for value in (*args, *kwargs.values())), f"{kernel or op} is given packed weights"
            self.made.add((place, op, kernel, packed))
            return function(*args, **kwargs)

        return call

    def wrap(self, place: Place, op: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """What the engine binds: the function, and a note of where it is called with what."""

        def call(*args: Any, **kwargs: Any) -> Any:
            forms = [value.format for value in (*args, *kwargs.values()) if isinstance(value, Packed | Group)]
            self._here.append((place, op, any(form != "plain" for form in forms)))
            try:
                return function(*args, **kwargs)
            finally:
                self._here.pop()

        return call


def run(folder: Path, observer: Observer) -> float:
    """Several prompts in both phases, and a short one alone, which no choice of entries cuts."""
    right = expected(folder).with_prefix(61).first(70)
    forward, state = assembled(folder, wrap=observer.wrap)
    alone = right.first(3)
    whole = alone.deviation([score(forward, state, [prompt])[0] for prompt in alone.prompts])
    return max(whole, right.deviation(mixed(forward, state, right.prompts, [2, 1, 50, 41], 13)))


def written(mapped: MapOpsReport) -> set[Made]:
    return {((site.layer, site.place, site.phase), site.op, site.kernel, site.decode) for site in mapped.sites}


@pytest.mark.parametrize("name", families_first(names()))
def test_what_was_mapped_is_what_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways: nothing runs that the map does not say, and all that it says runs (but the ends, which run once a step)."""
    observer = Observer(monkeypatch)
    assert run(checkpoint(name), observer) <= TOLERANCE
    mapped = written(planned(checkpoint(name), load())[1])
    assert observer.made <= mapped
    assert {made for made in mapped - observer.made if made[0][0] is not None} == set()
    assert {made[1] for made in observer.made if made[0][0] is None} == {made[1] for made in mapped if made[0][0] is None}


@pytest.mark.parametrize("name", families_first(names()))
def test_references_alone_give_the_same_logits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = checkpoint(name)
    plan, native = planned(folder, load())
    monkeypatch.setenv("DAY0_OPS", "reference")
    forced = map_ops(inspected(folder), plan, processor())
    assert forced.forced == "reference" and {site.provider for site in forced.sites} == {"reference"}
    assert any(site.kernel for site in native.sites)
    observer = Observer(monkeypatch)
    monkeypatch.setattr("tests.engine.opened.planned", lambda *asked: (plan, forced))
    assert run(folder, observer) <= TOLERANCE
    assert {kernel for _, _, kernel, _ in observer.made} == {None}


def test_the_engine_binds_the_map_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """A map edited by hand is obeyed: one operator of one layer by its reference."""
    folder = checkpoint("qwen3_moe")
    plan, mapped = planned(folder, load())
    sites = [
        site.model_copy(update={"kernel": None, "provider": "reference"}) if (site.layer, site.op) == (1, "paged_attention") else site
        for site in mapped.sites
    ]
    edited = mapped.model_copy(update={"sites": sites})
    called: list[str] = []
    op = ops().get("paged_attention")

    def reference(*args: Any) -> torch.Tensor:
        called.append("paged_attention")
        return op.reference(*args)

    monkeypatch.setitem(ops()._loaded, "paged_attention", replace(op, reference=reference))
    engine = Engine.start(Release.open(folder), plan, edited, None, CPU)
    right = expected(folder)
    assert right.deviation(mixed(engine.forward, engine.state, right.prompts, [2, 1, 90], 13)) <= TOLERANCE
    assert called
    Engine.start(Release.open(folder), plan, mapped, None, CPU)


def test_two_implementations_of_one_call_are_refused() -> None:
    _, mapped = planned(checkpoint("llama"), load())
    index = next(i for i, site in enumerate(mapped.sites) if site.op == "linear" and site.layer == 0)
    sites = list(mapped.sites)
    sites[index] = sites[index].model_copy(update={"kernel": None})
    with pytest.raises(Day0Error, match="two implementations for plain weights") as error:
        Bound(sites, Workspace(0, CPU))
    assert error.value.hint == "run `day0 map-ops` again"


def test_layers_that_are_alike_share_their_functions() -> None:
    """Bound once, not once a layer."""
    _, mapped = planned(checkpoint("qwen3_moe"), load())
    bound = Bound(mapped.sites, Workspace(0, CPU))
    assert bound.at(0, "mixer", "decode") is bound.at(2, "mixer", "decode")
    assert bound.at(0, "mixer", "decode") is not bound.at(0, "mixer", "prefill")
    assert bound.at(99, "mixer", "decode") is None


def test_time_by_operator() -> None:
    """Every operator of the map has a time, and together they take no longer than the whole."""
    folder = checkpoint("deepseek_v3")
    plan, mapped = planned(folder, load())
    engine = Engine.start(Release.open(folder), plan, mapped, None, CPU, profile=True)
    watch = Stopwatch()
    watch((0, "mixer", "decode"), "linear", lambda: None)()
    assert watch.seconds["linear"] >= 0
    right = expected(folder)
    mixed(engine.forward, engine.state, right.prompts, [2, 1, 90], 13)
    assert engine.profile.keys() == {site.op for site in mapped.sites}
    assert all(seconds > 0 for seconds in engine.profile.values())
