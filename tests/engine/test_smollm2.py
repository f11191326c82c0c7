"""SmolLM2-135M-Instruct, real weights: greedy answers token for token those of transformers, alone and five in one batch."""

from functools import cache
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from day0.engine.batch import Engine
from day0.engine.text import Tokenizer
from day0.spec.request import Request
from tests import smollm2
from tests.engine.opened import run, start

pytestmark = pytest.mark.skipif(bool(smollm2.unavailable()), reason=smollm2.unavailable() or "")
CHATS = (
    [("user", "What is the capital of France?")],
    [("system", "You are a patient teacher who answers in short sentences."), ("user", "Why is the sky blue?")],
    [("user", "Write a haiku about a router that picks eight experts.")],
    [("user", "2 + 2 = ?"), ("assistant", "4."), ("user", "And if I take 3 away from that, what is left? Explain every step.")],
    [("user", "Continue this list with five more entries, one a line:\n1. apple\n2. banana\n3. cherry\n4. damson plum\n5. elderberry\n")],
)
NEW = 64


@cache
def folder() -> Path:
    found = smollm2.checkpoint()
    assert found
    return found


@cache
def prompts() -> list[list[int]]:
    """Chats as the model's own template writes them."""
    tokenizer = Tokenizer.open(folder())
    chats = [[{"role": role, "content": content} for role, content in chat] for chat in CHATS]
    return [tokenizer.encode(tokenizer.chat(messages)) for messages in chats]


@cache
def answers(which: tuple[int, ...], count: int) -> list[list[int]]:
    """By transformers in float32; no token ends them early."""
    model = AutoModelForCausalLM.from_pretrained(folder(), dtype=torch.float32).eval()
    model.generation_config.eos_token_id = None
    found = []
    for i in which:
        ids = torch.tensor([prompts()[i]])
        made = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False, pad_token_id=0)
        found.append(made[0, ids.shape[1] :].tolist())
    return found


def engine() -> Engine:
    return start(folder(), context=256, chunk=100)


def requests(which: tuple[int, ...], count: int) -> list[Request]:
    return [Request(id=str(i), tokens=tuple(prompts()[i]), max_new=count) for i in which]


def test_one_chat() -> None:
    one = run(engine(), *requests((0,), 24))
    assert [one["0"].tokens] == answers((0,), 24)


@pytest.mark.slow
def test_five_chats_alone_and_in_one_batch() -> None:
    which = (0, 1, 2, 3, 4)
    right, running = answers(which, NEW), engine()
    assert len({len(prompt) for prompt in prompts()}) == 5, "five lengths"
    alone = [run(running, request)[request.id].tokens for request in requests(which, NEW)]
    assert alone == right
    together = run(running, *requests(which, NEW))
    assert [together[str(i)].tokens for i in which] == right
