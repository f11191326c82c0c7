"""Continuous batching: what a request gets does not depend on who else is there, when it came, or how it ends."""

import math
from typing import Any

import pytest
import torch

from day0.engine.batch import Engine
from day0.engine.text import Tokenizer
from day0.spec.errors import Day0Error
from day0.spec.request import Request, Sampling
from tests.engine.opened import Answer, Expected, expected, families_first, hear, resident, run, start
from tests.zoo import checkpoint, names

MODELS = ("llama", "qwen3_moe", "deepseek_v3")


def right(name: str) -> Expected:
    return expected(checkpoint(name))


def request(name: str, which: int, id: str = "a", **changes: Any) -> Request:
    """One of the prompts with known answers."""
    made = {"tokens": tuple(right(name).prompts[which]), "max_new": len(right(name).greedy[which])} | changes
    return Request(id=id, **made)


def several(name: str) -> list[Request]:
    """Prompts and parts of prompts, of six lengths, with answers of different lengths."""
    prompts = right(name).prompts
    cut = [prompts[2][:130], prompts[0], prompts[2][:61], prompts[1], prompts[2][90:91], prompts[1][:20]]
    return [Request(id=str(i), tokens=tuple(tokens), max_new=5 + 4 * i) for i, tokens in enumerate(cut)]


@pytest.mark.parametrize("name", families_first(names()))
def test_requests_that_come_and_go_get_what_each_gets_alone(name: str) -> None:
    """Six requests for five places, in chunks of 24 tokens; they come between steps, end at different times, and some wait."""
    requests = several(name)
    alone = {one.id: run(resident(checkpoint(name)), one)[one.id].tokens for one in requests}
    engine, answers = start(checkpoint(name), chunk=24), {}
    arrivals = {0: [0, 1], 1: [2], 4: [3, 4], 5: [5]}
    seen = set()
    for step in range(200):
        for which in arrivals.get(step, ()):
            engine.add(requests[which])
        if step > 5 and not engine.busy:
            break
        hear(answers, engine.step())
        seen.add(engine.running)
    assert {id: answer.tokens for id, answer in answers.items()} == alone
    assert len(seen) >= 4 and max(seen) == 5, "they were not together"
    assert (engine.running, engine.waiting, engine.usage) == (0, 0, 0)


@pytest.mark.parametrize("name", MODELS)
def test_random_choices_do_not_depend_on_neighbours(name: str) -> None:
    """A request with a seed draws the same tokens alone and beside others."""
    engine = resident(checkpoint(name))
    seeded = request(name, 1, max_new=20, sampling=Sampling(temperature=1.0, top_p=0.9, seed=7))
    alone = run(engine, seeded)["a"].tokens
    beside = run(engine, request(name, 2, "b", max_new=20, sampling=Sampling(temperature=1.5)), seeded, request(name, 0, "c"))
    assert beside["a"].tokens == alone != run(engine, request(name, 1, max_new=20))["a"].tokens
    assert beside["c"].tokens == right(name).greedy[0]


def test_requests_wait_for_a_place_first_come_first_served() -> None:
    engine, answers = start(checkpoint("llama"), batch=2), {}
    for i in range(5):
        engine.add(request("llama", i % 3, str(i), max_new=4))
    order = []
    while engine.busy:
        outputs = engine.step()
        assert engine.running <= 2
        order += [output.id for output in outputs if output.id not in answers]
        hear(answers, outputs)
    assert order == ["0", "1", "2", "3", "4"]
    assert all(answers[str(i)].tokens == right("llama").greedy[i % 3][:4] for i in range(5))


def test_cancel() -> None:
    """Running, waiting, twice, unknown; the others do not notice, and its place is free at once."""
    engine, answers = start(checkpoint("llama"), batch=2), {}
    for i in range(4):
        engine.add(request("llama", i % 3, str(i)))
    hear(answers, engine.step())
    for id in ("0", "3", "0", "nobody"):
        engine.cancel(id)
    hear(answers, engine.step())
    assert answers["0"].finish == answers["3"].finish == "cancelled"
    assert len(answers["0"].outputs) == 2 and answers["3"].tokens == []
    assert engine.running == 2, "the one that waited has the place"
    for id, answer in run(engine).items():
        answers.setdefault(id, Answer()).tokens += answer.tokens
        answers[id].outputs += answer.outputs
    for i in (1, 2):
        assert (answers[str(i)].tokens, answers[str(i)].finish) == (right("llama").greedy[i], "length")


def test_cancelled_before_it_began_and_again_under_the_same_name() -> None:
    engine = resident(checkpoint("llama"))
    engine.add(request("llama", 0))
    engine.cancel("a")
    assert [output.finish for output in engine.step()] == ["cancelled"]
    assert not engine.busy and engine.step() == []
    assert run(engine, request("llama", 0))["a"].tokens == right("llama").greedy[0]


@pytest.mark.parametrize("name", MODELS)
def test_stop_tokens(name: str) -> None:
    """The token that ends an answer is reported and has no text; before `min_new` it is not chosen."""
    greedy = right(name).greedy[1]
    at = next(i for i in range(2, len(greedy)) if greedy[i] not in greedy[:i])
    engine = start(checkpoint(name), text=True)
    plain = run(engine, request(name, 1))["a"]
    stopped = run(engine, request(name, 1, stop_tokens=frozenset([greedy[at]])))["a"]
    assert (stopped.tokens, stopped.finish) == (greedy[: at + 1], "stop")
    assert stopped.text == Tokenizer.open(checkpoint(name)).decode(greedy[:at])
    assert plain.text.startswith(stopped.text)
    kept = run(engine, request(name, 1, stop_tokens=frozenset([greedy[at]]), min_new=at + 1))["a"]
    assert kept.tokens[:at] == greedy[:at] and kept.tokens[at] != greedy[at]


def test_stop_strings() -> None:
    """One that lies across three tokens; what only begins one is held back and released at the end."""
    engine = start(checkpoint("llama"), text=True)
    long = run(engine, request("llama", 2, max_new=29))["a"]
    text = long.text
    assert text == Tokenizer.open(checkpoint("llama")).decode(long.tokens)
    assert [output.text for output in long.outputs][:4] == ["es", "d", ",", "D"], "the checkpoint's answer is another one"
    stopped = run(engine, request("llama", 2, max_new=29, stop=("no such text", "sd,")))["a"]
    assert (stopped.text, stopped.finish, stopped.tokens) == ("e", "stop", long.tokens[:3])
    missed = run(engine, request("llama", 2, max_new=29, stop=(text[-1] + "and more",)))["a"]
    assert (missed.text, missed.finish) == (text, "length")


@pytest.mark.parametrize("count", [0, 1, 8])
def test_max_new(count: int) -> None:
    answer = run(resident(checkpoint("llama")), request("llama", 2, max_new=count))["a"]
    assert (answer.tokens, answer.finish) == (right("llama").greedy[2][:count], "length")
    assert len(answer.outputs) == max(1, count)


def test_nothing_new_from_a_prompt_of_the_whole_context() -> None:
    prompt = tuple(right("llama").prompts[2])
    engine = start(checkpoint("llama"), context=130)
    assert run(engine, Request(id="a", tokens=prompt, max_new=0))["a"].finish == "length"


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("chunk", [17, 512])
def test_prompt_logprobs(name: str, chunk: int) -> None:
    """Those of transformers' logits, whatever chunks the prompt is read in and whoever is beside it; once, with the first news."""
    engine = start(checkpoint(name), chunk=chunk)
    asked = [request(name, i, str(i), prompt_logprobs=i != 1, max_new=i, sampling=Sampling(logprobs=2)) for i in range(3)]
    answers = run(engine, *asked)
    for i, prompt in enumerate(right(name).prompts):
        scores = answers[str(i)].outputs[0].prompt_scores
        assert not any(output.prompt_scores for output in answers[str(i)].outputs[1:])
        if i == 1:
            assert scores == ()
            continue
        truth_TW = torch.log_softmax(right(name).logits[i], -1)
        assert [one.token for one in scores] == prompt[1:]
        known = truth_TW[range(len(prompt) - 1), prompt[1:]].tolist()
        assert [one.logprob for one in scores] == pytest.approx(known, abs=2e-5)
        assert [token for one in scores for token, _ in one.top] == truth_TW[:-1].topk(2).indices.flatten().tolist()


@pytest.mark.parametrize("name", MODELS)
def test_logprobs_of_new_tokens(name: str) -> None:
    """The first from transformers' logits of the prompt; each a distribution's."""
    answer = run(resident(checkpoint(name)), request(name, 2, sampling=Sampling(logprobs=3)))["a"]
    scores = [score for output in answer.outputs for score in output.scores]
    assert [score.token for score in scores] == answer.tokens
    truth_W = torch.log_softmax(right(name).logits[2][-1], -1)
    best = truth_W.topk(3)
    assert [token for token, _ in scores[0].top] == best.indices.tolist()
    assert [value for _, value in scores[0].top] == pytest.approx(best.values.tolist(), abs=2e-5)
    assert all(score.logprob == score.top[0][1] and sum(math.exp(value) for _, value in score.top) <= 1 for score in scores)


BAD = {
    "the prompt is empty": dict(tokens=()),
    "are more than the planned context of 160": dict(max_new=160),
    "outside the vocabulary of 293": dict(tokens=(1, 293)),
    "outside the vocabulary": dict(tokens=(-1,)),
}


@pytest.mark.parametrize("message", BAD)
def test_requests_that_can_never_run(message: str) -> None:
    engine = resident(checkpoint("llama"))
    with pytest.raises(Day0Error, match=message) as error:
        engine.add(request("llama", 0, **BAD[message]))
    assert error.value.hint
    assert not engine.busy


def test_two_requests_of_one_name() -> None:
    engine = start(checkpoint("llama"), batch=1)
    engine.add(request("llama", 0, "a"))
    engine.add(request("llama", 1, "b"))
    engine.step()
    for id in ("a", "b"):
        with pytest.raises(Day0Error, match="already in flight"):
            engine.add(request("llama", 2, id))
    answers = run(engine)
    assert set(answers) == {"a", "b"}


def poisoned(name: str, token: int) -> Engine:
    """A model whose table has no number for one token."""
    engine = start(checkpoint(name))
    engine.forward.weights.ends.embed[token] = float("nan")  # type: ignore[attr-defined]
    return engine


@pytest.mark.parametrize("name", MODELS)
def test_logits_that_are_no_numbers_end_their_request_alone(name: str) -> None:
    """Beside three that are well, and before others that get its pages, in one run and in pieces."""
    held = {token for tokens in (*right(name).prompts, *right(name).greedy) for token in tokens}
    bad = next(token for token in range(256) if token not in held)
    engine = poisoned(name, bad)
    ill = Request(id="ill", tokens=(*right(name).prompts[1], bad, *right(name).prompts[0]), max_new=8)
    answers = run(engine, request(name, 0, "0"), ill, request(name, 1, "1"), request(name, 2, "2"))
    assert answers["ill"].finish == "error" and "not finite" in answers["ill"].outputs[-1].error
    assert answers["ill"].tokens == []
    for _ in range(2):
        assert [answers[str(i)].tokens for i in range(3)] == right(name).greedy
        answers = run(engine, *(request(name, i, str(i)) for i in range(3)))


@pytest.mark.parametrize("name", MODELS)
def test_requests_with_one_beginning_share_its_pages(name: str) -> None:
    """Those that come while it is there; with the tokens they would get without it."""
    prompt = right(name).prompts[2]
    tails = [tuple(prompt[:100]) + tuple(right(name).prompts[i]) for i in range(2)]
    alone = [run(start(checkpoint(name)), Request(id="a", tokens=tail, max_new=6))["a"].tokens for tail in tails]
    engine = start(checkpoint(name))
    engine.add(Request(id="first", tokens=tuple(prompt), max_new=20))
    answers: dict[str, Answer] = {}
    hear(answers, engine.step())
    one = engine.usage
    for i, tail in enumerate(tails):
        engine.add(Request(id=str(i), tokens=tail, max_new=6))
    hear(answers, engine.step())
    own = [-(-(len(tail) + 6) // 16) - 100 // 16 for tail in tails]
    assert engine.usage - one == pytest.approx(sum(own) / 50)
    while engine.busy:
        hear(answers, engine.step())
    assert [answers[str(i)].tokens for i in range(2)] == alone
    assert answers["first"].tokens[:8] == right(name).greedy[2]
    assert engine.usage == 0


def test_an_idle_engine() -> None:
    engine = resident(checkpoint("llama"))
    assert (engine.busy, engine.running, engine.waiting, engine.usage, engine.step()) == (False, 0, 0, 0, [])
