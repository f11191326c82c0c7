"""The operator map turned into callables, once: what `map-ops.yaml` chose is what runs."""

import time
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from day0.engine.packed import Group, Workspace
from day0.spec.errors import Day0Error
from day0.spec.ops import Phase
from day0.spec.packed import Packed
from day0.spec.registry import kernels, ops
from day0.spec.reports.map_ops import SiteRow

Function = Callable[..., Any]
Place = tuple[int | None, str, Phase]  # layer, place in it, phase
Choice = tuple[str | None, bool]  # kernel file (None: the operator's reference), whether packed weights are decoded first
Wrap = Callable[[Place, str, Function], Function]  # (place, operator, function) → what is called instead


class Bound:
    """Operators of every place: `bound.at(layer, "mixer", "decode").linear`."""

    def __init__(self, sites: Iterable[SiteRow], workspace: Workspace, wrap: Wrap | None = None) -> None:
        self._workspace, self._wrap = workspace, wrap
        places: dict[Place, dict[str, dict[str, Choice]]] = {}
        for site in sites:
            choices = places.setdefault((site.layer, site.place, site.phase), {}).setdefault(site.op, {})
            choice = (site.kernel, site.decode)
            if choices.setdefault(site.format, choice) != choice:
                where = f"layer {site.layer} {site.place} {site.phase}"
                raise Day0Error(f"{site.op} has two implementations for {site.format} weights", where, hint="run `day0 map-ops` again")
        alike: dict[str, Any] = {}
        self._places: dict[Place, Any] = {}
        for place, chosen in places.items():
            identity = repr((place if wrap else None, sorted((op, sorted(choices.items())) for op, choices in chosen.items())))
            if identity not in alike:
                alike[identity] = SimpleNamespace(**{op: self._function(place, op, choices) for op, choices in chosen.items()})
            self._places[place] = alike[identity]

    def at(self, layer: int | None, place: str, phase: Phase) -> Any:
        """The operators of one place, as attributes."""
        return self._places.get((layer, place, phase))

    def _function(self, place: Place, op: str, choices: dict[str, Choice]) -> Function:
        by_format = {form: self._one(op, *choice) for form, choice in choices.items()}
        function = next(iter(by_format.values())) if len({*choices.values()}) == 1 else _by_format(by_format)
        return self._wrap(place, op, function) if self._wrap else function

    def _one(self, op: str, kernel: str | None, decode: bool) -> Function:
        function: Function = ops().get(op).reference if kernel is None else kernels().get(kernel).fn
        return self._decoding(function) if decode else function

    def _decoding(self, function: Function) -> Function:
        workspace = self._workspace

        def decode_then_call(*args: Any, **kwargs: Any) -> Any:
            workspace.rewind()
            return function(*map(workspace.decoded, args), **{name: workspace.decoded(value) for name, value in kwargs.items()})

        return decode_then_call


class Stopwatch:
    """Time spent in each operator, as a wrap of bound functions."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def __call__(self, place: Place, op: str, function: Function) -> Function:
        seconds = self.seconds
        seconds[op] = 0.0

        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            result = function(*args, **kwargs)
            seconds[op] += time.perf_counter() - start
            return result

        return timed


def chained(*wraps: Wrap | None) -> Wrap | None:
    """Several wraps as one, the first innermost; None without any."""
    given = [wrap for wrap in wraps if wrap]

    def wrap(place: Place, op: str, function: Function) -> Function:
        for each in given:
            function = each(place, op, function)
        return function

    return wrap if given else None


def _by_format(functions: dict[str, Function]) -> Function:
    """Calls of one place whose weights are in different formats: each goes where the map sent its format."""

    def dispatch(*args: Any, **kwargs: Any) -> Any:
        form = "+".join(sorted({value.format for value in (*args, *kwargs.values()) if isinstance(value, Packed | Group)})) or "plain"
        return functions[form](*args, **kwargs)

    return dispatch
