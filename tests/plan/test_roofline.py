"""Bounds on speed: experts that are touched, what limits a step, and no seconds where a figure cannot be trusted."""

import random
from dataclasses import replace

import pytest

from day0.engine.demand import Demand
from day0.engine.roofline import bound, distinct, roofline
from day0.spec.placement import Placement
from day0.stages.machines import find_machine
from tests.plan import truth


def placed(model: str, machine: str, place: Placement, **ask: object) -> Demand:
    return truth.demand(model, machine=machine, **ask).placed(place)


def test_experts_touched_are_those_of_a_draw() -> None:
    """Kimi K2.5 chooses 8 of 384; tokens choose apart from each other."""
    demand, draw = truth.demand("kimi-k2.5", machine="b200x8"), random.Random(0)
    for tokens in (1, 16, 128):
        drawn = [len({expert for _ in range(tokens) for expert in draw.sample(range(384), 8)}) for _ in range(200)]
        assert distinct(demand, tokens) == pytest.approx(sum(drawn) / len(drawn), rel=0.02)
    assert distinct(truth.demand("llama-3.1-8b", machine="b200"), 64) == 0


def test_one_token_of_a_dense_model_reads_every_weight_once() -> None:
    demand = placed("llama-3.1-8b", "h100_sxm", Placement(), context=16, batch=1)
    found = bound(demand, "decode", timed=True)
    held = demand.card().weights - 2 * 128256 * 4096
    assert found.weight_bytes == pytest.approx(held, rel=1e-3)
    assert found.flops == pytest.approx(2 * found.weight_bytes / 2, rel=0.01)


def test_decode_at_batch_1_is_bound_by_the_latency_of_layers() -> None:
    """DeepSeek-V3 on 8 H200: measured stacks give 60 to 140 tokens a second where weights alone would allow several hundred."""
    found = bound(placed("deepseek-v3", "h200x8", Placement(tp=8, ep=8), batch=1), "decode", timed=True)
    assert found.rate is not None and found.limit == "latency"
    assert 60 <= found.rate[0] <= 220 < found.rate[1]


def test_windows_and_chosen_entries_are_read_not_the_whole_context() -> None:
    """From 64k tokens on, DeepSeek-V3.2 reads index keys of all tokens and 2048 latents, V3 the latents of all."""
    place, sizes = Placement(tp=8, ep=8), {"batch": 1, "context": 1 << 17}
    sparse, dense = (bound(placed(name, "h200x8", place, **sizes), "decode", timed=False) for name in ("deepseek-v3.2", "deepseek-v3"))
    assert dense.state_bytes == pytest.approx(61 * (1 << 17) * 576 * 2, rel=0.1)
    assert 61 * (1 << 17) * 128 * 2 < sparse.state_bytes < dense.state_bytes / 2


def test_no_speed_without_a_trusted_bandwidth() -> None:
    demand = truth.demand("llama-3.1-8b", machine="h100_sxm")
    blind = replace(demand.machine, card=replace(demand.machine.card, bandwidth=None))
    found = roofline(Demand(demand.release, demand.workload, blind, demand.placement, demand.inventory))
    assert "bandwidth" in found.unknown
    assert all(row.seconds_usual is None and row.seconds_best is None and row.limit is None and row.weight_bytes for row in found.phases)


@pytest.mark.parametrize("machine", ["hygon_k100_ai", "kunlun_p800"])
def test_profiles_without_bandwidth_give_no_speed(machine: str) -> None:
    assert find_machine(machine).card.bandwidth is None
    assert roofline(truth.demand("llama-3.1-8b", machine=machine)).unknown


@pytest.mark.parametrize("place", [Placement(), Placement(tp=8, ep=8), Placement(tp=1, dp=8, ep=8), Placement(tp=4, pp=2, ep=4)])
def test_more_work_is_never_faster(place: Placement) -> None:
    usual = []
    for batch in (8, 16, 64):
        found = bound(placed("deepseek-v3.2", "b300x8", place, batch=batch), "decode", timed=True)
        assert found.seconds_usual is not None and found.seconds_best is not None and found.seconds_best < found.seconds_usual
        usual.append(found.seconds_usual)
    assert usual == sorted(usual)
