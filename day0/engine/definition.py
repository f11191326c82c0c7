"""Layers on weights that somebody else holds; and our own definition of a model: the operators' references, whatever the map chose."""

from collections.abc import Callable
from typing import Any

from day0.engine.probe import Probe
from day0.engine.release import Release
from day0.spec.reports.map_ops import MapOpsReport, SiteRow


class Given(Probe):
    """Runs layers with the weights that `held` returns for the number of a layer."""

    def __init__(self, release: Release, mapped: MapOpsReport, dtype: str, held: Callable[[int], Any]) -> None:
        super().__init__(release, mapped, dtype)
        self._held = held

    def weights(self, index: int) -> Any:
        return self._held(index)


class Definition(Given):
    """Runs layers with the weights that another probe holds; no kernel of ours takes part."""

    def __init__(self, probe: Probe) -> None:
        super().__init__(probe.release, by_reference(probe.mapped), str(probe.dtype).removeprefix("torch."), probe.weights)


def by_reference(mapped: MapOpsReport) -> MapOpsReport:
    """The map with every operator run by its reference, on decoded weights, on no emulated target."""
    return mapped.model_copy(update={"sites": [_by_reference(row) for row in mapped.sites], "emulated": False})


def _by_reference(row: SiteRow) -> SiteRow:
    return row.model_copy(update={"provider": "reference", "kernel": None, "decode": row.format != "plain"})
