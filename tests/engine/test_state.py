"""The state manager: pages are never lost, never given twice, and what they held before never shows."""

from dataclasses import dataclass
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from day0.engine.model import Forward
from day0.engine.pages import Pages
from day0.engine.score import score
from day0.engine.state import Sequence, State
from day0.spec.step import Step
from tests.engine.opened import CPU, Expected, assembled, expected, families_first, mixed
from tests.engine.test_logits import TOLERANCE
from tests.zoo import checkpoint, names

MODELS = ("llama", "qwen3_moe", "deepseek_v3")


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 30), st.lists(st.tuples(st.sampled_from(["allocate", "share", "release"]), st.integers(0, 12)), max_size=60))
def test_pages_are_never_lost_and_never_given_twice(count: int, actions: list[tuple[str, int]]) -> None:
    pages, owners = Pages(count), []
    for action, n in actions:
        held = {page for owner in owners for page in owner}
        if action == "allocate":
            found = pages.allocate(n)
            assert (found is None) == (n > count - len(held))
            if found is not None:
                assert len(set(found)) == n and not set(found) & held and set(found) <= set(range(count))
                free = sorted(set(range(count)) - held)
                assert any(free[i + n - 1] - free[i] == n - 1 for i in range(len(free) - n + 1) if n) <= is_run(found)
                owners.append(found)
        elif owners:
            owner = owners[n % len(owners)]
            if action == "share":
                pages.share(owner)
                owners.append(list(owner))
            else:
                pages.release(owners.pop(n % len(owners)))
        assert pages.used == len({page for owner in owners for page in owner})
    for owner in owners:
        pages.release(owner)
    assert pages.used == 0
    assert pages.allocate(count) == list(range(count))


def is_run(pages: list[int]) -> bool:
    return all(later == earlier + 1 for earlier, later in pairwise(pages))


def test_pages_that_are_free_cannot_be_given_back_or_shared() -> None:
    pages = Pages(4)
    mine = pages.allocate(2)
    pages.release(mine)
    with pytest.raises(AssertionError, match="released twice"):
        pages.release(mine)
    with pytest.raises(AssertionError, match="is free"):
        pages.share(mine)


@dataclass
class Running:
    sequence: Sequence
    limit: int


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["admit", "fork", "grow", "free"]), st.integers(0, 9), st.integers(1, 40)), max_size=40))
def test_sequences_write_only_to_places_of_their_own(actions: list[tuple[str, int, int]]) -> None:
    """New entries of a step go where no other sequence reads, whatever was shared, and positions count on."""
    state = State([], [], pages=9, page_size=4, sequences=3, context=20, device=CPU)
    running: list[Running] = []
    for action, which, size in actions:
        chosen = running[which % len(running)] if running else None
        if action in ("admit", "fork"):
            limit, parent = min(size, 20), chosen.sequence if chosen and action == "fork" else None
            shared = min(limit - 1, parent.length) if parent else 0
            kept = set(parent.pages[: shared // 4]) if parent else set()
            found = state.admit(limit, parent, shared)
            room = 9 - len({page for one in running for page in one.sequence.pages})
            assert (found is None) == (len(running) == 3 or -(-limit // 4) - len(kept) > room)
            if found:
                assert found.length == 4 * len(kept) and kept <= set(found.pages) and len(set(found.pages)) == -(-limit // 4)
                running.append(Running(found, limit))
        elif chosen and action == "grow":
            new = min(size, chosen.limit - chosen.sequence.length)
            if new:
                first = chosen.sequence.length
                segment = state.segment("prefill", [(chosen.sequence, [7] * new)])
                assert segment.positions_T.tolist() == list(range(first, first + new))
                written = {chosen.sequence.pages[position // 4] for position in range(first, first + new)}
                others = {page for one in running if one is not chosen for page in one.sequence.pages[: -(-one.sequence.length // 4)]}
                assert not written & others
        elif chosen:
            state.free(chosen.sequence)
            running.remove(chosen)
        assert state.usage == len({page for one in running for page in one.sequence.pages}) / 9
    for one in running:
        state.free(one.sequence)
    assert state.usage == 0
    assert all(state.admit(4) for _ in range(3)), "a slot was lost"


def scattered(state: State, pages: int) -> list[Sequence]:
    """Sequences in every other one of the pages that are left, so that no two free ones are neighbours."""
    blockers = [state.admit(1) for _ in range(pages)]
    assert all(blockers) and state.usage == 1
    for blocker in blockers[::2]:
        state.free(blocker)
    return blockers[1::2]


def holes(name: str, pages: int) -> tuple[Forward, State]:
    """A model whose state has `pages` free pages of 16 tokens, no two of them neighbours."""
    forward, state = assembled(checkpoint(name), pages=2 * pages, sequences=2 * pages)
    scattered(state, 2 * pages)
    return forward, state


def four(name: str) -> Expected:
    return expected(checkpoint(name)).with_prefix(61)


@pytest.mark.parametrize("name", families_first(names()))
def test_scattered_pages_give_the_same_logits(name: str) -> None:
    right = four(name)
    forward, state = holes(name, 18)
    runs = []
    segment = state.segment
    state.segment = lambda phase, news: runs.append(segment(phase, news)) or runs[-1]  # type: ignore[method-assign]
    assert right.deviation(mixed(forward, state, right.prompts, [2, 1, 90, 41], 13)) <= TOLERANCE
    if state.page_size <= 40:  # prompts of two pages and more
        assert {one.phase for one in runs if None in one.runs} == {"prefill", "decode"}


@pytest.mark.parametrize("name", families_first(names()))
@pytest.mark.parametrize("neighbours", [True, False], ids=["run", "scattered"])
def test_what_pages_held_before_does_not_show(name: str, neighbours: bool) -> None:
    """Even when it was not a number, as after a sequence that overflowed."""
    right = four(name)
    forward, state = assembled(checkpoint(name)) if neighbours else holes(name, 18)
    for layer in forward.model.layers:
        for pool in state.layer(layer.index)._pools.values():
            pool.fill_(float("nan") if pool.is_floating_point() else 7)
    assert right.deviation(mixed(forward, state, right.prompts, [2, 1, 90, 41], 13)) <= TOLERANCE


def feed(forward: Forward, state: State, sequence: Sequence, tokens: list[int], phase: str = "prefill") -> torch.Tensor:
    """Logits of new tokens of one sequence."""
    segment = state.segment(phase, [(sequence, tokens)])  # type: ignore[arg-type]
    kind = {"prefill": None, "decode": None, phase: segment}
    return forward.logits(forward.hidden(Step(**kind, outputs=torch.arange(len(tokens)))))


@pytest.mark.parametrize("name", MODELS)
def test_a_shared_prefix_gives_the_same_logits(name: str) -> None:
    """A child reads its parent's whole pages, writes to its own, and outlives it; the parent does not notice."""
    right = expected(checkpoint(name))
    prompt, logits_TW = right.prompts[-1], right.logits[-1]
    forward, state = assembled(checkpoint(name))
    parent = state.admit(len(prompt))
    feed(forward, state, parent, prompt[:70])
    before = state.usage
    child = state.admit(61, parent, 60)
    assert child.length == 48 and child.pages[:3] == parent.pages[:3]
    assert state.usage - before == pytest.approx(1 / 50), "three of its four pages are the parent's"
    other = [token + 1 for token in prompt[60:61]]
    rest_TW = feed(forward, state, child, prompt[48:60])
    feed(forward, state, child, other, "decode")
    assert (rest_TW - logits_TW[48:60]).abs().max() <= TOLERANCE * right.range
    assert (feed(forward, state, parent, prompt[70:100]) - logits_TW[70:100]).abs().max() <= TOLERANCE * right.range
    state.free(parent)
    grandchild = state.admit(len(prompt), child, 60)
    assert grandchild.length == 48
    found_TW = torch.cat((feed(forward, state, grandchild, prompt[48:129]), feed(forward, state, grandchild, prompt[129:], "decode")))
    assert (found_TW - logits_TW[48:]).abs().max() <= TOLERANCE * right.range
    state.free(child)
    state.free(grandchild)
    assert state.usage == 0


def test_positions_go_on_after_chunks() -> None:
    _, state = assembled(checkpoint("llama"))
    one, other = state.admit(40), state.admit(12)
    first = state.segment("prefill", [(one, [1] * 20), (other, [2] * 3)])
    assert first.positions_T.tolist() == [*range(20), *range(3)]
    second = state.segment("prefill", [(other, [2] * 4), (one, [1] * 2)])
    assert second.positions_T.tolist() == [3, 4, 5, 6, 20, 21]
    assert (second.queries, second.lengths, second.longest) == ((4, 2), (7, 22), 22)
    third = state.segment("decode", [(one, [1]), (other, [2])])
    assert third.positions_T.tolist() == [22, 7]
    assert len({*third.slots}) == 2


def test_more_than_the_plan_is_refused() -> None:
    _, state = assembled(checkpoint("llama"))
    with pytest.raises(AssertionError, match="longer than the plan"):
        state.admit(161)
    assert [state.admit(160) is not None for _ in range(6)] == [True] * 5 + [False]


def test_every_sequence_is_given_back_after_scoring() -> None:
    forward, state = assembled(checkpoint("llama"))
    right = four("llama")
    for _ in range(3):
        assert right.deviation(score(forward, state, right.prompts)) <= TOLERANCE
        assert state.usage == 0
