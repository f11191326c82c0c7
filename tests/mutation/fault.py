"""A fault that is planted on purpose, and where the validator has to find it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch

from day0.engine.bind import Bound, Function
from day0.engine.release import Release
from day0.engine.state import LayerState, State
from day0.spec.registry import formats
from day0.spec.reports.validate import ValidateReport
from tests.mutation import kimi_k3
from tests.validate.planted import Fault, validate
from tests.vision.zoo import checkpoint as seeing_checkpoint
from tests.zoo import checkpoint
from tests.zoo.kimi_k3 import checkpoint as kimi_k3_checkpoint

Patch = Callable[[pytest.MonkeyPatch], None]
Change = Callable[[Any], Any]  # a part → one that is wrong


@dataclass(frozen=True)
class Planted:
    """One mutation of a healthy model."""

    model: str  #: checkpoint of tests/zoo
    rung: str  #: where it must be found
    layer: int | None  #: in which layer
    part: str  #: in which part
    plant: Fault | None = None  #: what is changed in the release as our engine reads it
    patch: Patch | None = None  #: what is changed in our engine
    operator: str = ""  #: operator that must be named; "": any
    pattern: str = ""  #: pattern that must be named; "": any
    line: str = ""  #: words that its line must have
    sees: bool = False  #: whether it is a checkpoint of tests/vision, planned with its tower
    wanted: dict[str, Any] = field(default_factory=dict)  #: arguments of `validate`

    def run(self) -> ValidateReport:
        """The report about the model with its fault."""
        with pytest.MonkeyPatch.context() as monkeypatch:
            if self.patch:
                self.patch(monkeypatch)
            if self.model == "kimi_k3":
                against = {"against": kimi_k3.against, "dtype": "float32"}
                return validate(monkeypatch, kimi_k3_checkpoint(self.model), self.plant, **self.wanted, **against)
            if self.sees:
                return validate(monkeypatch, seeing_checkpoint(self.model), self.plant, vision=True, **self.wanted)
            return validate(monkeypatch, checkpoint(self.model), self.plant, **self.wanted)

    def missed(self, report: ValidateReport) -> str:
        """"" when it was caught on its rung, in its layer and part; else what was found instead."""
        found = report.first_divergence
        if found is None:
            return report.verdict
        right = (found.rung, found.layer, found.part) == (self.rung, self.layer, self.part)
        named = self.operator in (found.operator or "") and self.pattern in found.pattern and self.line in found.line
        return "" if right and named else f"{found.rung}: {found.line}"


def call(op: str, change: Callable[[Function], Function]) -> Patch:
    """Every implementation of an operator, made wrong."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        right = Bound._one

        def one(self: Bound, name: str, kernel: str | None, decode: bool) -> Function:
            function = right(self, name, kernel, decode)
            return change(function) if name == op else function

        monkeypatch.setattr(Bound, "_one", one)

    return patch


def times(factor: float) -> Callable[[Function], Function]:
    """The result of an operator, scaled."""

    def change(function: Function) -> Function:
        def wrong(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            return tuple(one * factor if one.is_floating_point() else one for one in result) if isinstance(result, tuple) else result * factor

        return wrong

    return change


def decode(form: str, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> Patch:
    """Parts of a packed weight are changed before our format decodes them."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        right = formats().get(form)

        def wrong(parts: dict[str, torch.Tensor], block: Any, out: torch.Tensor) -> None:
            right.decode(change(dict(parts)), block, out)

        monkeypatch.setitem(formats()._loaded, form, replace(right, decode=wrong))

    return patch


def nibbles(parts: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """High half first."""
    data = parts["data"].contiguous().view(torch.uint8)
    return parts | {"data": ((data >> 4) | (data << 4)).view(parts["data"].dtype)}


def later_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions after the first step are one too large."""
    right = State.segment

    def segment(self: State, phase: Any, news: Any) -> Any:
        later = any(sequence.length for sequence, _ in news)
        found = right(self, phase, news)
        found.positions_T += int(later)
        return found

    monkeypatch.setattr(State, "segment", segment)


def stale(name: str) -> Patch:
    """The first entry of every later step is not written."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        right = LayerState.append

        def append(self: LayerState, which: str, values_N: torch.Tensor, segment: Any) -> None:
            if which == name and segment.lengths[0] > segment.queries[0]:
                values_N = values_N.clone()
                values_N[:1] = 0
            right(self, which, values_N, segment)

        monkeypatch.setattr(LayerState, "append", append)

    return patch


def forgotten(name: str) -> Patch:
    """State that is kept once a sequence is read as if the sequence began anew."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        right = LayerState.read

        def read(self: LayerState, which: str, segment: Any) -> torch.Tensor:
            found = right(self, which, segment)
            return torch.zeros_like(found) if which == name and segment.lengths[0] > segment.queries[0] else found

        monkeypatch.setattr(LayerState, "read", read)

    return patch


def truncated(name: str, expert: int, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last columns of one expert are lost while the weight is read."""
    from day0.engine import loading

    right = loading.fill

    def fill(folder: Any, located: Any, part: str, out: torch.Tensor) -> None:
        right(folder, located, part, out)
        if located.name == name:
            out[expert, :, -columns:] = 0

    monkeypatch.setattr(loading, "fill", fill)


def layer(index: int, **fields: Any) -> Fault:
    """Other edges of one layer."""

    def plant(release: Release) -> None:
        layers = list(release.model.layers)
        layers[index] = replace(layers[index], **fields)
        release.model = replace(release.model, layers=tuple(layers))

    return plant


def model(**fields: Any) -> Fault:
    """Something outside the layers."""

    def plant(release: Release) -> None:
        release.model = replace(release.model, **fields)

    return plant


def rule(**fields: Any) -> Change:
    """Another rule of a router."""
    return lambda f: replace(f, router=replace(f.router, **fields))


def rope(**fields: Any) -> Change:
    """Another rotation."""
    return lambda m: replace(m, rope=replace(m.rope, **fields))


def norm(**fields: Any) -> Change:
    """Another norm."""
    return lambda p: replace(p, norm=replace(p.norm, **fields))
