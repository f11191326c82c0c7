"""Choosing tokens: filters against transformers', draws against the distribution, and the rules of our own."""

import math

import pytest
import torch
from transformers import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from day0.engine.sample import SamplerState, choose, keep, score
from day0.spec.request import Request, Sampling

WORDS = 211


def logits(rows=5, seed=0, words=WORDS):
    return torch.randn(rows, words, generator=torch.Generator().manual_seed(seed)) * 3


def state(prompt=(1, 2, 3), stop_tokens=(), min_new=0, **sampling):
    return SamplerState(
        Request(id="r", tokens=tuple(prompt), max_new=9, sampling=Sampling(**sampling), stop_tokens=frozenset(stop_tokens), min_new=min_new)
    )


def draw(logits_W, state):
    [choice] = choose(logits_W[None], [state])
    return choice


@pytest.mark.parametrize("temperature", [0.3, 1.0, 1.7])
@pytest.mark.parametrize(
    ("top_k", "top_p", "min_p"), [(0, 1.0, 0.0), (7, 1.0, 0.0), (0, 0.8, 0.0), (0, 1.0, 0.05), (40, 0.6, 0.1), (500, 0.999, 0.0)]
)
def test_filters_keep_what_transformers_keeps(temperature, top_k, top_p, min_p):
    given = logits()
    warpers = [TemperatureLogitsWarper(temperature)]
    warpers += [TopKLogitsWarper(top_k)] if top_k else []
    warpers += [TopPLogitsWarper(top_p)] if top_p < 1 else []
    warpers += [MinPLogitsWarper(min_p)] if min_p else []
    expected = given.clone()
    for warper in warpers:
        expected = warper(None, expected)
    ours = keep(given / temperature, [state(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)] * len(given))
    torch.testing.assert_close(ours.softmax(-1), expected.softmax(-1))


def test_rows_with_different_filters_do_not_touch_each_other():
    given = logits(4)
    states = [state(temperature=1.0, **f) for f in ({}, {"top_k": 3}, {"top_p": 0.5}, {"min_p": 0.2, "top_k": 50, "top_p": 0.9})]
    together = keep(given, states)
    for b, one in enumerate(states):
        assert torch.equal(together[b], keep(given[b : b + 1], [one])[0])


def test_repetition_penalty_is_that_of_transformers():
    given, seen = logits(1), [4, 9, 9, 50]
    expected = RepetitionPenaltyLogitsProcessor(1.3)(torch.tensor([seen]), given.clone())
    ours = given[0].clone()
    state(prompt=seen, repetition_penalty=1.3).adjust(ours)
    torch.testing.assert_close(ours, expected[0])


def test_penalties_count_generated_tokens_and_not_the_prompt():
    one, flat = state(prompt=[7], presence_penalty=0.5, frequency_penalty=0.25, logit_bias=((3, 2.0),)), torch.zeros(10)
    for expected in (3, 3, 3, 3, 3, 3):  # 2 - 0.5 - 0.25 n is ahead of 0 until n = 6; at n = 6 it is level, and lower ids win
        assert draw(flat, one).token == expected
    assert one.generated == 6
    one.adjust(adjusted := flat.clone())
    assert adjusted[3].item() == pytest.approx(2.0 - 0.5 - 6 * 0.25)
    assert adjusted[7].item() == 0.0


def test_draws_follow_the_distribution():
    given = torch.tensor([0.0, 1.0, -1.0, 2.0, -math.inf, 0.5])
    one, count = state(temperature=1.0, seed=3), 20_000
    drawn = torch.bincount(torch.tensor([draw(given, one).token for _ in range(count)]), minlength=6)
    expected = given.softmax(-1) * count
    assert drawn[4] == 0
    possible = expected > 0
    chi_square = ((drawn - expected)[possible] ** 2 / expected[possible]).sum().item()
    assert chi_square < 18.5  # 99.9 % of a chi-square with 4 degrees of freedom


def test_a_seed_gives_the_same_tokens_in_every_batch():
    given = [logits(3, seed=n) for n in range(20)]
    alone = state(temperature=0.9, top_p=0.95, seed=11)
    expected = [draw(step[1], alone).token for step in given]
    neighbours = [state(temperature=1.5, top_k=4, seed=1), state(temperature=0.9, top_p=0.95, seed=11), state()]
    together = [choose(step, neighbours)[1].token for step in given]
    assert together == expected
    assert len(set(expected)) > 5
    other = state(temperature=0.9, top_p=0.95, seed=12)
    assert [draw(step[1], other).token for step in given] != expected


def test_greedy_batches_leave_the_logits_alone():
    given = logits(4)
    before = given.clone()
    assert [c.token for c in choose(given, [state() for _ in range(4)])] == given.argmax(-1).tolist()
    choose(given, [state(temperature=1.0, repetition_penalty=2.0, logit_bias=((1, 5.0),), top_p=0.5) for _ in range(4)])
    assert torch.equal(given, before)


@pytest.mark.parametrize("sampling", [{}, {"temperature": 1.0, "top_p": 0.9}, {"repetition_penalty": 1.2}])
@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_logits_that_are_not_finite_end_their_own_request(sampling, poison):
    given = logits(3)
    given[1, 17] = poison
    choices = choose(given, [state(**sampling, seed=1, logprobs=2) for _ in range(3)])
    assert "not finite" in choices[1].error
    assert choices[1].token == -1
    assert not choices[0].error
    assert not choices[2].error


def test_stop_tokens_wait_for_min_new():
    given = torch.zeros(8)
    given[5] = 9.0
    given[2] = 1.0
    one = state(stop_tokens=[5], min_new=2)
    assert [draw(given, one).token for _ in range(4)] == [2, 2, 5, 5]


def test_all_tokens_excluded_is_an_error():
    assert draw(torch.zeros(2), state(stop_tokens=[0, 1], min_new=1)).error == "every token is excluded"


def test_log_probabilities_are_those_of_the_model_itself():
    given = logits(1)[0]
    one = state(temperature=0.2, top_k=2, repetition_penalty=5.0, logit_bias=((9, 100.0),), logprobs=3)
    choice = draw(given, one)
    assert choice.token == 9
    expected = torch.log_softmax(given, -1)
    assert choice.score.token == 9
    assert choice.score.logprob == pytest.approx(expected[9].item(), abs=1e-5)
    assert [token for token, _ in choice.score.top] == expected.topk(3).indices.tolist()
    assert draw(given, state()).score is None
    assert draw(given, state(logprobs=0)).score.top == ()


def test_a_prompt_is_scored_row_by_row():
    given = logits(300)
    tokens = [n % WORDS for n in range(300)]
    scores = score(given, tokens, [1] * 300)
    expected = torch.log_softmax(given, -1)
    assert [s.logprob for s in scores] == pytest.approx([expected[n, t].item() for n, t in enumerate(tokens)], abs=1e-5)
    assert [s.top[0][0] for s in scores] == given.argmax(-1).tolist()


@pytest.mark.parametrize("temperature", [5e-324, 1e-30, 1e-9])
def test_a_tiny_temperature_is_greedy(temperature):
    given = logits(1)[0]
    assert draw(given, state(temperature=temperature, seed=1)).token == given.argmax().item()


def test_one_word_and_ties():
    assert draw(torch.tensor([1.0]), state(temperature=1.0, top_k=5, top_p=0.1, min_p=1.0, seed=1)).token == 0
    kept = keep(torch.zeros(1, 10), [state(temperature=1.0, top_p=0.35)])
    assert torch.isfinite(kept[0]).tolist() == [True] * 4 + [False] * 6
