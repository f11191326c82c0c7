"""Faults in operators, parts and state: the comparison of logits sees them all."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from day0.engine.bind import Function, Place
from day0.engine.model import Forward
from day0.engine.score import score
from day0.engine.state import State
from day0.spec.model import Layer
from day0.spec.registry import blocks, ops
from tests.conformance.mutations import CHUNKS, DECODE, MUTATIONS, PREFILL, Mutation
from tests.engine.opened import assembled, described, expected, load, planned
from tests.engine.test_logits import tolerance
from tests.vision.mutations import MUTATIONS as TOWERS
from tests.zoo import checkpoint, every

FLOOR = 1e-4  # what is promised: ten times what the other tests allow


def broken(folder: Path, mutation: Mutation) -> tuple[Forward, State]:
    """The model as the map says, with the mutation in every layer."""

    def wrap(place: Place, op: str, function: Function) -> Function:
        return mutation.call[op](function) if op in mutation.call else function

    def changed(layer: Layer) -> Layer:
        return replace(layer, **{place: mutation.part[part.kind](part) for place, part in layer.parts() if part.kind in mutation.part})

    return assembled(folder, wrap=wrap, change=lambda model: replace(model, layers=tuple(map(changed, model.layers))))


def deviation(mutation: Mutation, tokens: int = 60) -> float:
    """Of the logits of the first `tokens` of each prompt."""
    folder = checkpoint(mutation.checkpoint)
    right = expected(folder).first(tokens)
    return right.deviation(score(*broken(folder, mutation), right.prompts, **mutation.manner))


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation = MUTATIONS[name]
    if mutation.state:
        mutation.state(monkeypatch)
    assert deviation(mutation) > FLOOR


def test_every_block_has_a_mutation_of_its_own() -> None:
    assert {kind for mutation in MUTATIONS.values() for kind in mutation.part} | TOWERS.keys() == set(blocks().names())


def tied(function: Function) -> Function:
    """Routing by whole numbers: among seven experts some are always equal."""
    return lambda logits_TE, *rest: function(logits_TE.round(), *rest)


def last_of_equals(function: Function) -> Function:
    def call(logits_TE: torch.Tensor, *rest: Any) -> Any:
        weights_TK, experts_TK = function(logits_TE.flip(-1), *rest)
        return weights_TK, logits_TE.shape[-1] - 1 - experts_TK

    return call


def test_a_tie_that_is_not_forced_is_seen() -> None:
    """Experts with equal scores: the lower index goes first; the higher one gives other logits."""
    folder = checkpoint("olmoe")
    prompts = expected(folder).first(60).prompts
    forced, free = (
        score(*broken(folder, Mutation("olmoe", PREFILL, {"route": change})), prompts)
        for change in (tied, lambda function: tied(last_of_equals(function)))
    )
    assert replace(expected(folder), logits=forced).deviation(free) > FLOOR


@pytest.mark.parametrize("manner", [PREFILL, CHUNKS, DECODE], ids=["prefill", "chunks", "decode"])
def test_without_a_mutation_there_is_nothing_to_see(manner: dict[str, int]) -> None:
    for name in {mutation.checkpoint for mutation in MUTATIONS.values()}:
        assert deviation(Mutation(name, manner)) <= tolerance(name)


def disturbed(result: Any) -> Any:
    """Every other element of the last axis half as large again; the choice of another token where the result is a choice."""
    if isinstance(result, tuple):
        return tuple(map(disturbed, result))
    if not result.is_floating_point():
        return result.roll(1, 0)
    factors = torch.ones(result.shape[-1], dtype=result.dtype)
    factors[::2] = 1.5
    return result * factors


def disturbing(function: Function) -> Function:
    return lambda *args, **kwargs: disturbed(function(*args, **kwargs))


def first_call(op: str) -> tuple[str, dict[str, int]] | None:
    """The first checkpoint that calls an operator, and a manner of feeding in which it does."""
    for name in every():
        phases = {site.phase for site in planned(checkpoint(name), load())[1].sites if site.op == op}
        if phases:
            return name, CHUNKS if "prefill" in phases else DECODE
    return None


@pytest.mark.parametrize("op", ops().names())
def test_no_operator_can_be_disturbed_unseen(op: str) -> None:
    found = first_call(op)
    if found is None:
        pytest.skip("no checkpoint calls it")
    assert deviation(Mutation(*found, call={op: disturbing}), tokens=130) > FLOOR, "with fewer tokens a choice may be all there is"


@pytest.mark.parametrize("kind", blocks().names())
def test_no_block_can_be_disturbed_unseen(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a mixer or a network adds, what a residual gives to the next sublayer."""
    holders = [name for name in every() if kind in {part.kind for layer in described(name).layers for _, part in layer.parts()}]
    if not holders:
        pytest.skip("no checkpoint has it in a layer")
    block = blocks().get(kind)
    wrong = {name: disturbing(getattr(block, name)) for name in ("prefill", "decode", "run", "before") if hasattr(block, name)}
    monkeypatch.setitem(blocks()._loaded, kind, replace(block, **wrong))
    assert deviation(Mutation(holders[0], CHUNKS)) > FLOOR
