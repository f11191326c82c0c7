"""What holds for every plan over several cards: cards add up, more memory and less work never fit less, nothing is unexplained."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from day0.engine.demand import Demand
from day0.engine.legal import problems
from day0.engine.release import Release
from day0.engine.rules import engine_names
from day0.engine.search import best, counts
from day0.spec.machine import Card, Machine
from day0.spec.placement import Heads, Placement, held
from day0.spec.workload import Workload
from day0.stages import bill
from day0.stages.machines import find_machine
from day0.stages.plan_memory import complete, plan_memory
from tests.plan import truth
from tests.zoo import checkpoint

GIB = 1 << 30
MODELS = ("deepseek-v3", "gpt-oss-120b", "qwen3.5-35b", "deepseek-v4-flash", "llama-3.1-8b")
places = st.builds(
    lambda tp, dp, pp, whole: Placement(tp=tp, dp=dp, pp=pp, ep=tp * dp if whole else 1),
    st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 3]), st.booleans(),
)  # fmt: skip
loads = st.fixed_dictionaries({
    "engine": st.sampled_from(engine_names()), "context": st.sampled_from([4096, 65536, 1 << 20]), "batch": st.integers(1, 40),
    "kv_dtype": st.sampled_from([None, "fp8"]), "prediction": st.booleans(),
})  # fmt: skip


def machine(memory: int, cards: int = 96) -> Machine:
    return Machine(name="test", backend="cuda", card=Card(name="test", memory=memory, arch="sm_90"), cards=cards)


def demand(model: str, place: Placement, memory: int = 140 * GIB, **ask: object) -> Demand:
    release = truth.release(model)
    load = complete(Workload(**ask), release)  # type: ignore[arg-type]
    return Demand(release, load, machine(memory), place, truth.inventory(model, load.dtype))


@pytest.mark.parametrize("model", MODELS)
@given(place=places, ask=loads)
@settings(max_examples=5, deadline=None)
def test_no_byte_is_unexplained(model: str, place: Placement, ask: dict[str, object]) -> None:
    made = demand(model, place, **ask)
    cards, weights = list(made.cards()), sum(card.weights for card in made.cards())
    assert len(cards) == place.cards
    assert {card.needed + card.free for card in cards} == {made.machine.card.memory}
    assert sum(pool.bytes for pool in bill.pools(made)) == weights == sum(group.bytes for group in bill.groups(made))
    assert sum(pool.bytes for pool in bill.state(made).pools) == sum(card.state for card in cards)
    assert {sum(made.transients.values())} == {card.activations for card in cards}
    assert {sum(made.collectives.values())} == {card.collectives for card in cards}
    band = made.band()
    assert band["margin_p95"] >= band["margin_p50"] >= 0 and band["free_p50"] >= band["free_p95"]
    assert made.load()["peak"] >= max(card.weights for card in cards)


@pytest.mark.parametrize("model", MODELS)
@given(place=places)
@settings(max_examples=5, deadline=None)
def test_the_cards_of_a_legal_plan_hold_the_model(model: str, place: Placement) -> None:
    """Weights that are cut, once; those that are not, once a card; those that are cut within a copy of attention, once a copy."""
    made = demand(model, place, engine="sglang")
    if problems(made):
        return
    for weights in made.inventory.kinds:
        for located in weights.values():
            spec, shape = located.spec, made.cut.shape(located.spec, None, 1)
            held_here = 1
            for size in shape:
                held_here *= size
            times = {"none": place.stage, "expert": 1 if "F" in spec.axes else place.expert_tp}.get(spec.split, place.dp)
            shared = any(heads.shared and heads.count < place.tp for heads in spec.heads)
            assert held_here * place.stage >= spec.count * times, spec.name
            if not shared:
                assert held_here * place.stage == spec.count * times, spec.name


@pytest.mark.parametrize("model", MODELS)
@given(place=places, ask=loads)
@settings(max_examples=4, deadline=None)
def test_more_context_and_more_sequences_never_take_less(model: str, place: Placement, ask: dict[str, object]) -> None:
    made = demand(model, place, **ask)
    card = made.card()
    longer = made.under(context=made.workload.context * 2).card()
    more = made.under(batch=made.workload.batch + place.dp).card()
    assert longer.state >= card.state and longer.needed >= card.needed
    assert more.state >= card.state and more.needed >= card.needed


@pytest.mark.parametrize("model", ["deepseek-v3", "qwen3.5-35b", "gpt-oss-120b"])
@given(place=places, ask=loads, memory=st.integers(40, 300))
@settings(max_examples=3, deadline=None)
def test_more_memory_never_lowers_capacity(model: str, place: Placement, ask: dict[str, object], memory: int) -> None:
    less, more = (demand(model, place, gib * GIB, **ask).capacity() for gib in (memory, memory + 20))
    assert more.tokens >= less.tokens and more.max_context >= less.max_context and more.max_batch >= less.max_batch


@given(st.integers(1, 64), st.integers(1, 32), st.booleans(), st.integers(1, 64))
def test_ranks_together_have_every_head(count: int, width: int, shared: bool, ranks: int) -> None:
    heads = Heads(count=count, width=width, shared=shared)
    assert ranks * held((heads,), count * width, ranks) >= count * width
    if heads.divides(ranks):
        assert ranks * held((heads,), count * width, ranks) == max(count, ranks) * width


def test_the_least_cards_are_whole_parts_of_nodes() -> None:
    assert list(counts(machine(GIB, 40), 40, {})) == [1, 2, 4, 8, 16, 24, 32, 40]
    assert best(demand("deepseek-v3", Placement()), 3, {}) is None, "neither 128 heads nor 256 experts over 3"


def test_one_card_is_what_the_engine_allocates_and_eight_are_searched_only_where_one_is_short() -> None:
    from day0.stages.inspect import inspect

    inspected = inspect(checkpoint("deepseek_v3"))
    one, eight = (plan_memory(inspected, find_machine(name), Workload(context=128, batch=2)) for name in ("b300", "b300x8"))
    assert (eight.cards, eight.placement, eight.per_card) == (1, one.placement, one.per_card)


def test_a_figure_that_differs_is_seen() -> None:
    """The walk of the figures must be able to fail: a latent that ranks cut would halve the state."""
    made = demand("deepseek-v3", Placement(tp=2), context=4096, batch=1)
    assert made.card().state == demand("deepseek-v3", Placement(), context=4096, batch=1).card().state


def test_engine_rules_name_their_sources() -> None:
    from day0.engine.rules import named_rules

    for name in engine_names():
        rules = named_rules(name)
        assert rules.name == name
        assert all(rule.source for rule in (*rules.padding, *rules.entries))


def test_a_release_with_weights_is_planned_like_its_configuration() -> None:
    """Headers and declarations of one model give the same cards."""
    from tests.zoo import checkpoint as zoo

    release = Release.open(zoo("qwen3_moe"))
    declared = truth.opened(dict(release.checkpoint.config.data))
    place = Placement(tp=2, ep=2)
    ask = {"context": 128, "batch": 2}
    cards = [
        Demand(each, complete(Workload(**ask), each), machine(GIB), place).card().weights  # type: ignore[arg-type]
        for each in (release, declared)
    ]
    assert cards[0] == cards[1]
