"""Figures between rehearsed sizes: they never fall where a size grows, lie hardly below a rehearsal, and are not made up where there is none."""

import random
from functools import cache
from math import lcm

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from day0.engine import rehearsal
from day0.engine.demand import Demand
from day0.engine.footprint import page_unit
from day0.engine.inventory import Inventory
from day0.engine.ladder import Ladder
from day0.engine.rehearsal import Load, Rehearsal
from day0.engine.release import Release
from day0.engine.shadow.heap import Block, Heap
from day0.engine.shadow.module import Tensor
from day0.engine.share import turns
from day0.spec.machine import Card, Machine
from day0.spec.placement import ONE_CARD, Placement
from day0.spec.workload import Workload
from day0.stages.plan_memory import complete, plan_memory
from tests.engine.opened import inspected
from tests.plan import truth
from tests.zoo import checkpoint, every

GIB = 1 << 30
SIZES = st.tuples(st.integers(1, 1 << 21), st.integers(1, 5000), st.integers(1, 20000))


def rugged(context: int, batch: int, chunk: int) -> int:
    """Bytes that go up and down."""
    return random.Random(f"{context} {batch} {chunk}").randrange(1 << 40)


@settings(max_examples=200, deadline=None)
@given(SIZES, st.sampled_from([0, 1, 2]), st.integers(1, 1 << 20))
def test_it_never_falls(sizes: tuple[int, int, int], axis: int, more: int) -> None:
    ladder = Ladder(rugged, turns=(100, 2048, 2049))
    grown = tuple(size + more * (number == axis) for number, size in enumerate(sizes))
    assert ladder.peak(*sizes) <= ladder.peak(*grown)


def test_it_is_exact_where_growth_is_even() -> None:
    ladder = Ladder(lambda context, batch, chunk: 3 * context * batch * chunk)
    assert ladder.peak(3000, 5, 300) == 3 * 3000 * 5 * 300
    assert ladder.peak(100, 1, 512) == 3 * 100 * 100, "a step reads no more tokens than there are"


def test_what_stops_to_grow_between_rungs_is_not_missed() -> None:
    ladder = Ladder(lambda context, batch, chunk: min(context, 1500) * (1 << 20))
    assert ladder.peak(1500, 1, 16) == 1500 << 20 and ladder.peak(700, 8, 512) == 700 << 20


@cache
def inventory(name: str) -> Inventory:
    return Inventory(Release.open(checkpoint(name)), "float32")


@pytest.mark.parametrize("name", ["llama", "deepseek_v3", "deepseek_v32", "gpt_oss", "qwen3_next", "mimo_v2_flash", "deepseek_v4"])
def test_between_rungs_it_is_not_below_what_is_rehearsed(name: str) -> None:
    share, load = inventory(name).share(ONE_CARD), Load(dtype="float32", page_size=16, streamed=False)
    known = Rehearsal(share, load)
    ladder = Ladder(known.peak, turns(share.model, load.dtype))
    for context, batch, chunk in ((100, 1, 100), (150, 3, 90), (300, 5, 400), (450, 2, 33), (700, 8, 256), (1000, 9, 16), (3000, 4, 512)):
        found, exact = ladder.peak(context, batch, chunk), known.peak(context, batch, min(chunk, context * batch))
        assert 0.9 * exact <= found <= 2 * exact, (context, batch, chunk)


@pytest.mark.parametrize("name", every())
def test_every_family_is_rehearsed(name: str) -> None:
    """Shadows know all that its code asks for."""
    share = inventory(name).share(ONE_CARD)
    known = Rehearsal(share, Load(dtype="float32", page_size=lcm(16, page_unit(share.model)), streamed=True))
    assert 0 < 0.9 * known.peak(90, 2, 64) <= known.peak(260, 2, 64)


@pytest.mark.parametrize("name", ["deepseek_v3", "mimo_v2_flash", "deepseek_v4", "qwen3_next"])
def test_what_a_step_holds_does_not_depend_on_those_before(name: str) -> None:
    """Each size has a state of its own, and nothing stays: not even the angles of rotations, which are part of the forward pass."""
    share, load = inventory(name).share(ONE_CARD), Load(dtype="bfloat16", page_size=16, streamed=False)
    sizes, once = ((40, 1, 8), (600, 5, 200), (90, 2, 64)), Rehearsal(share, load)
    assert [once.peak(*size) for size in sizes] == [Rehearsal(share, load).peak(*size) for size in sizes]
    assert once.reading.heap.live == 0


def test_what_ends_late_does_not_count_in_the_run_that_goes_on() -> None:
    """Memory in cycles ends when the collector comes by, which is in the middle of some other run."""
    heap = Heap()
    late = [Block(heap, 1000)]
    heap.restart()
    kept = [Block(heap, 40)]
    late.clear()
    kept.append(Block(heap, 2))
    assert (heap.live, heap.peak) == (42, 42)


def test_asides_in_an_aside() -> None:
    heap = Heap()
    with heap.aside():
        with heap.aside():
            kept = [Block(heap, 1)]
        kept.append(Block(heap, 2))
    kept.append(Block(heap, 4))
    assert heap.live == 4


@pytest.mark.parametrize("name", truth.models())
def test_a_step_over_a_long_context_holds_little(name: str) -> None:
    """No kernel keeps the scores, the keys or the masks of all that a chunk could read: sequences of 128k tokens, on one card."""
    share = truth.inventory(name, "bfloat16").share(ONE_CARD)
    known = Rehearsal(share, Load(dtype="bfloat16", page_size=lcm(16, page_unit(share.model)), streamed=False))
    assert known.peak(1 << 17, 8, 512) < 3 * GIB


def test_ranks_hold_less() -> None:
    """Heads and widths that are cut; what every rank computes whole stays."""
    load = Load(dtype="bfloat16", page_size=16, streamed=False)
    found = [
        Rehearsal(truth.inventory("llama-3.1-405b", "bfloat16").share(Placement(tp=tp)), load).peak(8192, 8, 512) for tp in (1, 2, 4, 8)
    ]
    assert found == sorted(found, reverse=True) and found[0] > 1.9 * found[-1]


def test_what_shadows_do_not_know_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan is made nevertheless, by a formula and with a margin that such formulas need."""
    machine = Machine(name="test", backend="cpu", card=Card(name="test", memory=64 * GIB))
    asked = Workload(context=333, batch=3)
    sound = plan_memory(inspected(checkpoint("olmoe")), machine, asked)
    rehearsal.ladder.cache_clear()
    rehearsal.reading.cache_clear()
    monkeypatch.delattr(Tensor, "topk")
    monkeypatch.delattr(rehearsal.reading().torch, "topk")
    try:
        found = plan_memory(inspected(checkpoint("olmoe")), machine, asked)
    finally:
        rehearsal.ladder.cache_clear()
        rehearsal.reading.cache_clear()
    (reason,) = [reason for reason in found.reasons if reason.code == "D0411"]
    assert reason.status == "warn" and "'topk', in engine/sample.py" in reason.found
    assert found.verdict == "fits" and any("estimate by formulas" in line for line in found.assumptions)
    card, right = found.per_card[0], sound.per_card[0]
    assert card.activations + card.margin > right.activations + right.margin
    assert found.band.margin_p95 - found.band.margin_p50 > sound.band.margin_p95 - sound.band.margin_p50
    assert "D0411" not in [reason.code for reason in sound.reasons]


def test_of_an_illegal_cut_nothing_is_said_of_its_steps() -> None:
    """Heads that are not whole cannot be rehearsed; that they are not whole is what there is to say."""
    found = truth.reported("llama-3.1-8b", "h200_sxmx8", tp=3, context=4096, batch=8)
    assert {reason.code for reason in found.reasons} == {"D0405", "D0406"}
    assert "activations are an estimate by formulas" in found.assumptions[0]


def test_weights_that_do_not_fit_are_not_rehearsed() -> None:
    release = Release.open(checkpoint("llama"))
    load = complete(Workload(context=64, batch=1), release)
    small = Demand(release, load, Machine(name="test", backend="cpu", card=Card(name="test", memory=1000)))
    assert not small.working.rehearsed and not small.working.unknown and small.activations > 0
