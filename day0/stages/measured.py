"""Evidence as rows of the validate report."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from math import sqrt
from typing import Any

from day0.spec.evidence import Evidence, LayerEvidence, OperatorEvidence, SelectionEvidence, WeightEvidence
from day0.spec.reports.validate import DepthRow, LayerRow, ModelRow, NormRow, OperatorRow, SelectionRow, ServiceRow, SwitchRow, TowerRow, WeightRow
from day0.spec.whole_evidence import DepthEvidence, ModelEvidence, NormEvidence, ServiceEvidence, SwitchEvidence, TowerEvidence

LARGEST = 1e30  # stands for infinity, which JSON has no word for


def rows(evidence: Iterable[Evidence]) -> dict[str, Any]:
    """Field of the report → its rows."""
    kept = list(evidence)

    def only(kind: type[Evidence]) -> Iterator[Any]:
        return (one for one in kept if isinstance(one, kind))

    return {
        "weights": list(_weights(only(WeightEvidence))),
        "operators": list(_operators(only(OperatorEvidence))),
        "layer_errors": [LayerRow.model_validate(_fields(one, LayerRow)) for one in only(LayerEvidence)],
        "selections": [SelectionRow.model_validate(_fields(one, SelectionRow)) for one in only(SelectionEvidence)],
        "depths": [DepthRow.model_validate(_fields(one, DepthRow)) for one in only(DepthEvidence)],
        "answers": [ServiceRow.model_validate(_fields(one, ServiceRow)) for one in only(ServiceEvidence)],
        "towers": [TowerRow.model_validate(_fields(one, TowerRow)) for one in only(TowerEvidence)],
        "switches": [SwitchRow.model_validate(_fields(one, SwitchRow)) for one in only(SwitchEvidence)],
        "norms": [NormRow.model_validate(_fields(one, NormRow)) for one in only(NormEvidence)],
        "logits": [ModelRow.model_validate(_fields(one, ModelRow)) for one in only(ModelEvidence)],
    }


def _weights(evidence: Iterable[WeightEvidence]) -> Iterator[WeightRow]:
    """One row a layer."""
    groups: dict[int | None, list[WeightEvidence]] = defaultdict(list)
    for one in evidence:
        groups[one.layer].append(one)
    for layer, members in groups.items():
        squares: dict[str, list[float]] = defaultdict(list)
        for one in members:
            squares[one.role].append(one.rms**2)
        yield WeightRow(
            layer=layer, tensors=len(members), formats=dict(Counter(one.format for one in members)),
            deviation=_finite(max(one.deviation for one in members)),
            rms={role: sqrt(sum(values) / len(values)) for role, values in squares.items()},
        )  # fmt: skip


def _operators(evidence: Iterable[OperatorEvidence]) -> Iterator[OperatorRow]:
    """One row for each kind of call, with the errors of the worst."""
    groups: dict[tuple[str, str, str, str], list[OperatorEvidence]] = defaultdict(list)
    for one in evidence:
        groups[one.op, one.provider, one.dtype, one.sizes].append(one)
    for (op, provider, dtype, sizes), members in groups.items():
        worst = max(members, key=lambda one: one.errors.ratio)
        errors = _fields(worst, OperatorRow)["errors"]
        yield OperatorRow.model_validate(dict(op=op, provider=provider, dtype=dtype, sizes=sizes, calls=len(members), errors=errors))


def _fields(evidence: Evidence, row: type[Any]) -> dict[str, Any]:
    """The fields that a row has, with infinities replaced."""
    return {name: _finite(value) for name, value in asdict(evidence).items() if name in row.model_fields}


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(entry) for name, entry in value.items()}
    return LARGEST if isinstance(value, float) and not abs(value) < LARGEST else value
