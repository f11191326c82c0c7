"""Kimi K3 against a naive reference in float64, in the layout of its release, read whole, in pieces, and token by token."""

import pytest
import torch
from torch import Tensor

from day0.engine.batch import Engine
from day0.engine.release import Release
from day0.spec.request import Request
from day0.spec.step import Step
from tests.engine.opened import run, start
from tests.zoo.kimi_k3 import checkpoint, expected

NAMES = ("kimi_k3", "kimi_k3-mxfp4")
TOLERANCE = {"float64": 1e-9, "float32": 1e-4}  # of the range of the logits


def logits(engine: Engine, prompts: list[list[int]], border: int | None, chunk: int) -> list[Tensor]:
    """Float64 logits of every token, the prompts side by side: before `border` in chunks of `chunk`, from there on one by one."""
    state, forward = engine.state, engine.forward
    head = torch.cat([rows.double() for rows in forward.weights.head()])
    admitted = [state.admit(len(prompt)) for prompt in prompts]
    found: list[list[Tensor]] = [[] for _ in prompts]
    while pending := [b for b, prompt in enumerate(prompts) if admitted[b].length < len(prompt)]:
        decoding = [b for b in pending if border is not None and admitted[b].length >= border]
        reading = [b for b in pending if b not in decoding]
        last = {b: len(prompts[b]) if border is None else min(border, len(prompts[b])) for b in reading}
        ends = {b: min(last[b], admitted[b].length + chunk) if b in last else admitted[b].length + 1 for b in pending}
        news = {b: prompts[b][admitted[b].length : ends[b]] for b in decoding + reading}
        segments = [[(admitted[b], news[b]) for b in members] for members in (decoding, reading)]
        decode, prefill = (state.segment(p, s) if s else None for p, s in zip(("decode", "prefill"), segments, strict=True))
        step = Step(decode=decode, prefill=prefill, outputs=torch.arange(sum(map(len, news.values()))))
        rows = (forward.hidden(step).double() @ head.T).split([len(new) for new in news.values()])
        for b, logits_TW in zip(news, rows, strict=True):
            found[b].append(logits_TW)
    for sequence in admitted:
        state.free(sequence)
    return [torch.cat(pieces) for pieces in found]


@pytest.mark.parametrize(("name", "dtype"), [
    pytest.param(name, dtype, marks=[pytest.mark.slow] if name != NAMES[0] and dtype == "float64" else []) for name in NAMES for dtype in TOLERANCE
])  # fmt: skip
def test_logits(name: str, dtype: str) -> None:
    engine, right = start(checkpoint(name), dtype=dtype), expected(name)
    span = max((one.max() - one.min()).item() for _, one, _ in right)
    found = {}
    for manner in ((None, 512), (None, 7), (1, 1), (20, 13)):
        ours = logits(engine, [ids.tolist() for ids, _, _ in right], *manner)
        found[manner] = max((one - other).abs().max().item() for one, (_, other, _) in zip(ours, right, strict=True)) / span
    assert {manner: error for manner, error in found.items() if not error <= TOLERANCE[dtype]} == {}


@pytest.mark.parametrize("name", NAMES)
def test_streamed(name: str) -> None:
    engine, (ids, right, _) = start(checkpoint(name), weights="streamed"), expected(name)[0]
    (ours,) = logits(engine, [ids.tolist()], 3, 2)
    assert (ours - right).abs().max() <= 1e-4 * (right.max() - right.min())


@pytest.mark.parametrize("name", NAMES)
def test_greedy(name: str) -> None:
    engine, right = start(checkpoint(name)), [case for case in expected(name) if len(case[2])]
    requests = [Request(id=str(i), tokens=tuple(ids.tolist()), max_new=len(greedy)) for i, (ids, _, greedy) in enumerate(right)]
    answers = run(engine, *requests)
    assert [answers[request.id].tokens for request in requests] == [greedy.tolist() for _, _, greedy in right]


@pytest.mark.parametrize("name", NAMES)
def test_every_tensor_is_accounted_for(name: str) -> None:
    release = Release.open(checkpoint(name))
    release.require_complete()
    assert release.unclaimed == []
    assert release.model.unread_keys == ()
