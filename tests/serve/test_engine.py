"""The service on the real engine, asked by OpenAI's own client."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import suppress

import httpx
import openai
import pytest
import torch
from openai.types.chat import ChatCompletion
from transformers import AutoModelForCausalLM

from day0.engine.text import Tokenizer
from day0.serve.listen import bind
from day0.spec.errors import Day0Error
from day0.spec.reports.serve import ServeReport
from day0.spec.workload import Workload
from day0.stages.inspect import inspect
from day0.stages.machines import find_machine
from day0.stages.map_ops import map_ops
from day0.stages.opening import planned
from day0.stages.serve import Wanted, serve
from tests.plans import quick_plan
from tests.serve.live import PATIENCE, until
from tests.zoo import checkpoint

CHATS = [[{"role": "user", "content": text}] for text in ("Where is the other one?", "🔥 and then? Tell me more of it.")]


@pytest.fixture(scope="module")
def folder():
    return checkpoint("qwen3_moe")


def opened(folder):
    inspected, machine = inspect(folder), find_machine(None)
    plan = quick_plan(inspected, machine, Workload(context=128, batch=4, dtype="float32"))
    return planned(plan, map_ops(inspected, plan, machine))


@pytest.fixture(scope="module")
def serving(folder):
    """The service in a thread; ends when the module does."""
    told, event, found = [], threading.Event(), []

    def ready(serving):
        found.append(serving)
        event.set()

    thread = threading.Thread(target=lambda: told.append(serve(opened(folder), Wanted(port=0, name="zoo"), ready)), daemon=True)
    thread.start()
    assert event.wait(PATIENCE)
    yield found[0]
    found[0].stop()
    thread.join(PATIENCE)
    [report] = told
    assert report.verdict == "serves"
    assert report.requests.length + report.requests.stop >= 6
    assert report.requests.cancelled >= 1
    assert ServeReport.model_validate(report.to_dict()) == report


@pytest.fixture(scope="module")
def expected(folder):
    """Greedy answers by transformers."""
    tokenizer, model = Tokenizer.open(folder), AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    texts = []
    for messages in CHATS:
        ids = torch.tensor([tokenizer.encode(tokenizer.chat(messages))])
        made = model.generate(ids, max_new_tokens=24, do_sample=False, eos_token_id=sorted(tokenizer.eos), pad_token_id=0)
        texts.append(tokenizer.decode(made[0, ids.shape[1] :].tolist()))
    return texts


def client(serving):
    return openai.OpenAI(base_url=f"{serving.url}/v1", api_key="none", max_retries=0)


def test_two_chats_at_once_say_what_transformers_says(serving, expected):
    said = {}

    def ask(i):
        stream = client(serving).chat.completions.create(
            model="zoo", messages=CHATS[i], max_tokens=24, temperature=0, stream=True, stream_options={"include_usage": True}
        )
        said[i] = ""
        for chunk in stream:
            said[i] += "".join(choice.delta.content or "" for choice in chunk.choices)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [said[0], said[1]] == expected


def test_whole_answers_are_what_openai_declares(serving, expected):
    asked = {"model": "zoo", "messages": CHATS[0], "max_tokens": 24, "temperature": 0, "logprobs": True, "top_logprobs": 3}
    answer = client(serving).chat.completions.create(**asked)
    ChatCompletion.model_validate(json.loads(answer.model_dump_json()), strict=True)
    assert answer.choices[0].message.content == expected[0]
    for one in answer.choices[0].logprobs.content:
        assert one.logprob == max(other.logprob for other in one.top_logprobs)


def test_prompt_scores_are_those_of_transformers(serving, folder):
    tokenizer, model = Tokenizer.open(folder), AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    prompts = [tokenizer.encode(text) for text in ("the other one was it", "so")]
    for max_tokens in (0, 1):
        asked = {"model": "zoo", "prompt": prompts, "echo": True, "logprobs": 1, "max_tokens": max_tokens, "temperature": 0}
        answer = client(serving).completions.create(**asked)
        for tokens, choice in zip(prompts, answer.choices, strict=True):
            with torch.no_grad():
                scores = torch.log_softmax(model(torch.tensor([tokens])).logits[0].float(), -1)
            known = scores[range(len(tokens) - 1), tokens[1:]].tolist()
            assert choice.logprobs.token_logprobs[1 : len(tokens)] == pytest.approx(known, abs=1e-4)
            best = [max(top.values()) for top in choice.logprobs.top_logprobs[1 : len(tokens)]]
            assert best == pytest.approx(scores[:-1].amax(-1).tolist(), abs=1e-4)


def test_the_same_seed_draws_the_same_text(serving):
    def draw(seed):
        asked = {"model": "zoo", "prompt": "the", "max_tokens": 16, "temperature": 1.0, "seed": seed, "n": 2}
        return [choice.text for choice in client(serving).completions.create(**asked).choices]

    first = draw(5)
    assert draw(5) == first
    assert first[0] != first[1]


@pytest.mark.parametrize("stream", [True, False])
def test_clients_that_go_leave_nothing_running(serving, stream):
    engine, before = serving.opened.engine, serving.runner.metrics.ends["cancelled"]
    body = {"messages": CHATS[0], "max_tokens": 90, "ignore_eos": True, "stream": stream, "n": 4}
    while serving.runner.metrics.ends["cancelled"] == before:  # once more when the answer was faster than the client
        with suppress(httpx.ReadTimeout), httpx.stream("POST", f"{serving.url}/v1/chat/completions", json=body, timeout=0.05) as answer:
            next(answer.iter_lines())
    until(lambda: engine.running == 0 and engine.waiting == 0)
    assert engine.usage == 0


def test_a_taken_port_is_said_before_anything_is_loaded(folder):
    opening = opened(folder)
    taken = bind("127.0.0.1", 0)
    with pytest.raises(Day0Error, match="in use"):
        serve(opening, Wanted(port=taken.getsockname()[1]), lambda _serving: None)
    taken.close()


def test_a_model_that_does_not_load_ends_the_service(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    opening = opened(copy)
    assert opening.release
    for shard in copy.glob("*.safetensors"):
        os.truncate(shard, shard.stat().st_size - 9)
    with pytest.raises(Day0Error, match="safetensors"):
        serve(opening, Wanted(port=0), lambda _serving: None)


def test_the_command_serves_until_interrupted(folder, tmp_path):
    def day0(*words):
        return subprocess.run([sys.executable, "-m", "day0", *words], cwd=tmp_path, capture_output=True, text=True, timeout=120)

    for words in (["inspect", str(folder)], ["plan-memory", "--context", "64", "--batch", "2"], ["map-ops"]):
        assert day0(*words).returncode == 0
    taken = bind("127.0.0.1", 0)
    refused = day0("serve", "--port", str(taken.getsockname()[1]))
    assert refused.returncode == 2
    assert "in use" in refused.stderr
    assert "Traceback" not in refused.stderr
    taken.close()
    command = [sys.executable, "-m", "day0", "serve", "--port", "0", "--json", "--api-key", "open-sesame"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=-1, stderr=-1, text=True)
    written = tmp_path / "reports" / folder.name / "this-machine" / "serve.yaml"
    until(lambda: written.is_file() or process.poll() is not None)
    first = ServeReport.read(written)
    body, key = {"prompt": "the", "max_tokens": 3, "ignore_eos": True}, {"Authorization": "Bearer open-sesame"}
    assert httpx.post(f"{first.url}/v1/completions", json=body).status_code == 401
    answer = httpx.post(f"{first.url}/v1/completions", json=body, headers=key, timeout=PATIENCE)
    assert answer.json()["usage"]["completion_tokens"] == 3
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    assert "open-sesame" not in written.read_text() + out + err
    assert (first.generated_tokens, ServeReport.read(written).generated_tokens, json.loads(out)["generated_tokens"]) == (0, 3, 3)
