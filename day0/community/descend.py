"""From a part of a layer that is wrong to the operator call in it that is wrong first.

Our layer and the reference's run on the same stream. A call is right when its result passes through the reference's layer too, in whatever
layout; it is harmless when something that was computed from it does. The first call that is neither is the one to look at.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from day0.community.bench import Bench
from day0.community.compare_layers import Choices
from day0.community.passing import Passing, sums
from day0.community.trail import Made, Trail
from day0.community.variants import explain
from day0.engine.packed import Group
from day0.engine.probe import Call
from day0.spec.evidence import CallEvidence
from day0.spec.packed import Packed

PLACES = ("mixer", "ffn", "residual", "embedding")


def descend(bench: Bench, place: int, stream_TD: Tensor, ids: Sequence[int], handed: Tensor | None, part: str) -> CallEvidence | None:
    """The first wrong call of `part` ("mixer", "ffn"; any part when "residual"), in float32; None when each passes through the reference."""
    with Passing(len(ids)) as passing:
        truth = bench.truth.layer(place, stream_TD, ids=ids, handed=handed)
    choices = Choices.of(bench, place, truth, handed)
    probe, stream = bench.probes[torch.float32], stream_TD
    for index in bench.ours(place):
        trail = Trail()
        entering = probe.entering(index, stream) if index == bench.ours(place)[0] else stream
        with trail:
            result = probe.layer(index, entering, choices.experts_TK, [len(ids)], trail.call, ids=ids, reads_TK=choices.reads_TK)
        wrong = first_wrong(trail.calls, passing, part)
        if wrong is not None:
            found = _evidence(index, *wrong, _names(probe.weights(index)))
            return replace(found, pattern=found.pattern or explain(*wrong, passing, _numbers(bench.release.checkpoint.config.data)))
        stream = result.hidden_TD
    return None


def first_wrong(calls: list[Made], passing: Passing, part: str) -> tuple[Call, Tensor, Tensor] | None:
    """(call, its result, [T] bool: tokens that are wrong) of the first wrong call of a part."""
    wrong: dict[int, tuple[Tensor, Tensor]] = {}
    judged: set[int] = set()
    for number, made in enumerate(calls):
        for result in made.results:
            for piece in _pieces(made.call, result):
                if piece.shape[0] != passing.tokens:
                    continue
                judged.add(number)
                missing_T = passing.find(sums(piece))
                if missing_T is not None:
                    wrong.setdefault(number, (piece, missing_T))
    right = [made.before for number, made in enumerate(calls) if number in judged and number not in wrong]
    for number, (result, wrong_T) in wrong.items():
        call = calls[number].call
        if not any(number in before for before in right) and (call.place in (part, "residual") or part == "residual"):
            return call, result, wrong_T
    return None


def _numbers(config: Any) -> Iterator[float]:
    """Every number of a configuration, at any depth."""
    if isinstance(config, dict | list):
        for value in config.values() if isinstance(config, dict) else config:
            yield from _numbers(value)
    elif isinstance(config, int | float) and not isinstance(config, bool) and abs(config) < 1e6:
        yield float(config)


def _pieces(call: Call, result: Tensor) -> Iterable[Tensor]:
    """What each of several joined weights gave."""
    group = next((value for value in call.args if isinstance(value, Group)), None)
    if group is None or call.op != "linear":
        return (result,)
    return result.split([member.shape[0] for member in group.members], dim=-1)


def _evidence(index: int, call: Call, result: Tensor, wrong_T: Tensor, names: dict[int, str]) -> CallEvidence:
    experts = _experts(call, wrong_T)
    read = dict.fromkeys(names[key] for value in call.args for key in _keys(value) if key in names)
    return CallEvidence(
        layer=index, part=call.place, op=call.op, label="+".join(read), expert=experts[0] if len(experts) == 1 else None,
        experts=experts, row=int(wrong_T.int().argmax()), rows=int(wrong_T.sum()), tokens=len(wrong_T), columns=None,
        pattern="" if result.any() else "zero throughout",
    )  # fmt: skip


def _names(weights: Any, path: str = "") -> dict[int, str]:
    """Where a weight lies → what it is called, "q_b"."""
    if isinstance(weights, Tensor | Packed):
        return dict.fromkeys(_keys(weights), path)
    found: dict[int, str] = {}
    for name, value in vars(weights).items() if hasattr(weights, "__dict__") and not isinstance(weights, Group) else ():
        found |= _names(value, f"{path}.{name}" if path and path not in PLACES else name)
    return found


def _keys(value: Any) -> list[int]:
    """What tells one weight from another."""
    if isinstance(value, Group):
        return [key for member in value.members for key in _keys(member)]
    if isinstance(value, Packed):
        return [part.data_ptr() for part in value.parts.values()]
    return [value.data_ptr()] if isinstance(value, Tensor) else []


def _experts(call: Call, wrong_T: Tensor) -> tuple[int, ...]:
    """The experts that explain which tokens are wrong: all of their tokens are, and no token is without one of them."""
    chosen = next((v for v in call.args if isinstance(v, Tensor) and v.dim() == 2 and not v.is_floating_point()), None)
    if call.op != "experts" or chosen is None:
        return ()
    sent = {e: (chosen == e).any(-1) for e in chosen.unique().tolist()}
    suspects = {e: sent_T for e, sent_T in sent.items() if bool(wrong_T[sent_T].all())}
    if not suspects or not torch.equal(torch.stack([*suspects.values()]).any(0), wrong_T):
        return ()
    count_T = torch.stack([*suspects.values()]).sum(0)
    needed = {e: sent_T for e, sent_T in suspects.items() if bool((sent_T & (count_T == 1)).any())}
    enough = bool(needed) and torch.equal(torch.stack([*needed.values()]).any(0), wrong_T)
    return tuple(needed if enough else suspects)
