"""The map of a model that is cut over cards: sizes and costs are those of one card."""

from math import prod
from typing import Any

import pytest

from day0.engine.release import Release
from day0.engine.rules import named_rules
from day0.engine.shard import Cut
from day0.spec.placement import Placement
from day0.spec.registry import parts
from day0.spec.reports.map_ops import MapOpsReport, SiteRow
from day0.spec.workload import Workload
from day0.stages.inspect import inspect
from day0.stages.machines import find_machine
from day0.stages.map_ops import map_ops
from tests.engine.opened import families_first
from tests.plans import quick_plan
from tests.zoo import checkpoint, names


def mapped(name: str, **degrees: int) -> MapOpsReport:
    found, machine = inspect(checkpoint(name)), find_machine("h200_sxm")
    load: dict[str, Any] = {"context": 300, "batch": 8, "chunk": 200, "dtype": "bfloat16", **degrees}
    return map_ops(found, quick_plan(found, machine, Workload(**load)), machine)


@pytest.mark.parametrize("name", families_first(names()))
def test_maps_of_two_ranks_hold_what_their_weights_hold(name: str) -> None:
    """Rows × columns of each linear call are the elements that the rank has of its weights."""
    place, release = Placement(tp=2), Release.open(checkpoint(name))
    cut = Cut(place, named_rules(), "", "bfloat16")
    for row in mapped(name, tp=2, ep=2).sites:
        if row.op == "linear" and row.layer is not None and row.phase == "decode" and row.place in ("mixer", "ffn"):
            weights = release.layer(row.layer)
            held = [cut.shape(weights[f"{row.place}.{one}"].spec, None, 1) for one in reads(release, row)]
            assert row.sizes["O"] * row.sizes["I"] == sum(map(prod, held)), row.name


def reads(release: Release, row: SiteRow) -> tuple[str, ...]:
    part = dict(release.model.layers[row.layer or 0].parts())[row.place]
    sites = parts().get(part.kind).sites(part, release.model.hidden, row.phase)
    return next(site.weights for site in sites if site.label == row.label and site.op == row.op)


def test_replicas_share_sequences_and_send_tokens_to_experts() -> None:
    """Two replicas of attention on two ranks each, four ranks that hold three of twelve experts each; 8 sequences."""
    whole, cut = ({site.label: site for site in mapped("glm_moe_dsa", **degrees).sites if site.layer in (None, 2) and site.phase == "decode"}
                  for degrees in ({}, {"tp": 2, "dp": 2, "ep": 4}))  # fmt: skip
    assert {label: site.sizes["T"] for label, site in cut.items()} == dict.fromkeys(cut, 4) | {"experts": 2}
    assert (whole["experts"].sizes["E"], cut["experts"].sizes["E"], cut["experts"].sizes["F"]) == (12, 3, whole["experts"].sizes["F"])
    assert cut["route"].sizes["E"] == 12 and cut["attention"].sizes["H"] == whole["attention"].sizes["H"] // 2
    for label in ("q_b", "absorb", "attention", "sparse", "o", "shared.down", "experts", "head"):
        assert whole[label].flops == pytest.approx(4 * cut[label].flops), label


def test_a_mixed_step_reads_weights_once_and_runs_mixers_twice() -> None:
    report = mapped("glm_moe_dsa")
    seconds = {step: time or 0.0 for step, time in report.seconds.items()}
    assert max(seconds["prefill"], seconds["decode"]) < seconds["mixed"] < seconds["prefill"] + seconds["decode"]
    mixers = sum(row.share for row in report.sites if row.phase == "decode" and row.place == "mixer")
    assert seconds["mixed"] == pytest.approx(seconds["prefill"] + mixers * seconds["decode"])
    assert sum(report.shares["mixed"].values()) == pytest.approx(1)
