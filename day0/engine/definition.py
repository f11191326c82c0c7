"""Our own definition of a model: its layers by the operators' references alone, whatever the map chose."""

from typing import Any

from day0.engine.probe import Probe
from day0.spec.reports.map_ops import MapOpsReport, SiteRow


class Definition(Probe):
    """Runs layers with the weights that another probe holds; no kernel of ours takes part."""

    def __init__(self, probe: Probe) -> None:
        super().__init__(probe.release, by_reference(probe.mapped), str(probe.dtype).removeprefix("torch."))
        self._probe = probe

    def weights(self, index: int) -> Any:
        return self._probe.weights(index)


def by_reference(mapped: MapOpsReport) -> MapOpsReport:
    """The map with every operator run by its reference, on decoded weights, on no emulated target."""
    return mapped.model_copy(update={"sites": [_by_reference(row) for row in mapped.sites], "emulated": False})


def _by_reference(row: SiteRow) -> SiteRow:
    return row.model_copy(update={"provider": "reference", "kernel": None, "decode": row.format != "plain"})
