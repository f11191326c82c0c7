"""Answers of the service on an engine of known tokens: shapes that OpenAI's own types accept, streams that add up to the whole."""

import json

import pytest
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.serve.fake import CONTEXT, service
from tests.serve.live import client
from tests.zoo import tokenizer as zoo

HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def http(tokenizer):
    app, runner, engine = service(tokenizer)
    with client(app, runner) as http:
        http.engine, http.runner = engine, runner
        yield http


def chat(http, **fields):
    answer = http.post("/v1/chat/completions", json={"model": "fake", "messages": HELLO, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


def complete(http, prompt, **fields):
    answer = http.post("/v1/completions", json={"model": "fake", "prompt": prompt, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


def stream(http, path, **fields):
    """Data of the events, the last of which has to be [DONE]."""
    with http.stream("POST", path, json={"model": "fake", "stream": True, **fields}) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [line.removeprefix("data: ") for line in answer.iter_lines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    return [json.loads(event) for event in events[:-1]]


def test_a_chat_is_what_openai_declares(http, tokenizer):
    answer = chat(http, max_tokens=5, logprobs=True, top_logprobs=2)
    ChatCompletion.model_validate(answer, strict=True)
    prompt = tokenizer.encode(tokenizer.chat(HELLO))
    assert answer["choices"][0]["message"]["content"] == tokenizer.decode(prompt[:5])
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"] == {"prompt_tokens": len(prompt), "completion_tokens": 5, "total_tokens": len(prompt) + 5}
    assert answer["system_fingerprint"] == "day0-0-abcd1234"
    first = answer["choices"][0]["logprobs"]["content"][1]
    assert bytes(first["bytes"]).decode() == first["token"]
    assert [one["logprob"] for one in first["top_logprobs"]] == [-0.5, -1.5]


@pytest.mark.parametrize("fields", [{}, {"n": 3}, {"stop": "el"}, {"stop": ["zz", "lo"]}, {"logprobs": True, "top_logprobs": 1}])
def test_a_streamed_chat_adds_up_to_the_whole(http, fields):
    whole = chat(http, max_tokens=20, **fields)
    options = {"stream_options": {"include_usage": True}}
    chunks = stream(http, "/v1/chat/completions", messages=HELLO, max_tokens=20, **options, **fields)
    for chunk in chunks:
        ChatCompletionChunk.model_validate(chunk, strict=True)
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"] == whole["usage"]
    assert all(chunk["usage"] is None for chunk in chunks[:-1])
    for i, choice in enumerate(whole["choices"]):
        mine = [chunk["choices"][0] for chunk in chunks[:-1] if chunk["choices"][0]["index"] == i]
        assert mine[0]["delta"] == {"role": "assistant", "content": ""}
        assert "".join(one["delta"].get("content", "") for one in mine) == choice["message"]["content"]
        assert [one["finish_reason"] for one in mine if one["finish_reason"]] == [choice["finish_reason"]]
        assert mine[-1]["finish_reason"]
        scores = [score for one in mine for score in (one["logprobs"] or {"content": []})["content"]]
        assert scores == (choice["logprobs"] or {"content": []})["content"]


def test_usage_comes_only_when_asked(http):
    assert not any("usage" in chunk for chunk in stream(http, "/v1/chat/completions", messages=HELLO, max_tokens=3))
    counted = stream(http, "/v1/completions", prompt="abc", max_tokens=3, stream_options={"continuous_usage_stats": True})
    assert [chunk["usage"]["completion_tokens"] for chunk in counted] == [1, 2, 3]


def test_stop_strings_end_an_answer_and_are_cut(http):
    answer = complete(http, "abcdef", max_tokens=30, stop=["de"])
    assert (answer["choices"][0]["text"], answer["choices"][0]["finish_reason"]) == ("abc", "stop")


def test_ends_are_the_releases_unless_ignored(http, tokenizer):
    prompt = [*tokenizer.encode("ab"), zoo.IDS["eos"], *tokenizer.encode("cd")]
    assert complete(http, prompt)["choices"][0] == {"index": 0, "text": "ab", "logprobs": None, "finish_reason": "stop"}
    assert complete(http, prompt, ignore_eos=True, max_tokens=5)["choices"][0]["text"] == "abcd"
    assert complete(http, prompt, min_tokens=4, max_tokens=9)["usage"]["completion_tokens"] == 8
    assert complete(http, "abcd", stop_token_ids=tokenizer.encode("c"), max_tokens=9)["choices"][0]["text"] == "ab"


def test_completions_take_texts_and_ids_and_lists_of_them(http, tokenizer):
    ab, cd = tokenizer.encode("ab"), tokenizer.encode("cd")
    for prompts in (["ab"], [ab], ["ab", "cd"], [ab, cd], ["ab", cd]):
        expected = [text for text in ("abab", "cdcd")[: len(prompts)] for _ in range(2)]
        for prompt in (prompts, prompts[0]) if len(prompts) == 1 else (prompts,):
            answer = complete(http, prompt, max_tokens=4, n=2)
            Completion.model_validate(answer, strict=True)
            assert [choice["text"] for choice in answer["choices"]] == expected
            assert [choice["index"] for choice in answer["choices"]] == list(range(len(expected)))


@pytest.mark.parametrize("max_tokens", [0, 1])
def test_prompts_are_scored_as_evaluations_ask(http, tokenizer, max_tokens):
    prompts = [tokenizer.encode("the cat"), tokenizer.encode("é!")]
    answer = complete(http, prompts, echo=True, logprobs=1, max_tokens=max_tokens, temperature=0, seed=1234)
    for tokens, choice in zip(prompts, answer["choices"], strict=True):
        found = choice["logprobs"]
        assert choice["text"] == tokenizer.decode(tokens) + tokenizer.decode(tokens[:max_tokens])
        assert len(found["tokens"]) == len(found["token_logprobs"]) == len(found["top_logprobs"]) == len(found["text_offset"])
        assert len(found["tokens"]) == len(tokens) + max_tokens
        assert (found["token_logprobs"][0], found["top_logprobs"][0]) == (None, None)
        assert found["token_logprobs"][1:] == [-0.5] * (len(tokens) + max_tokens - 1)
        assert all(max(top.values()) == -0.5 for top in found["top_logprobs"][1:])
    assert answer["usage"]["completion_tokens"] == 2 * max_tokens


def test_streamed_completions_add_up_to_the_whole(http):
    fields = {"prompt": ["the cat 🔥", "b"], "max_tokens": 12, "echo": True, "logprobs": 2}
    whole = complete(http, **fields)
    chunks = [chunk["choices"][0] for chunk in stream(http, "/v1/completions", **fields)]
    for choice in whole["choices"]:
        mine = [chunk for chunk in chunks if chunk["index"] == choice["index"]]
        assert "".join(chunk["text"] for chunk in mine) == choice["text"]
        for key in ("tokens", "token_logprobs", "text_offset", "top_logprobs"):
            assert [value for chunk in mine for value in chunk["logprobs"][key]] == choice["logprobs"][key]


def test_impossible_tokens_have_a_finite_probability(http):
    answer = chat(http, max_tokens=1, logprobs=True, top_logprobs=3)
    assert answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"][2]["logprob"] == -9999.0


def test_answers_end_where_the_plan_ends_streamed_or_not(http):
    prompt = "abcdefghij" * 6
    answer = complete(http, prompt, max_tokens=10)
    assert (answer["usage"]["completion_tokens"], answer["choices"][0]["finish_reason"]) == (4, "length")
    assert stream(http, "/v1/completions", prompt=prompt, max_tokens=10)[-1]["choices"][0]["finish_reason"] == "length"
    assert complete(http, "a" * (CONTEXT - 1))["usage"]["completion_tokens"] == 1
    assert complete(http, "a" * CONTEXT, max_tokens=0, echo=True)["usage"]["prompt_tokens"] == CONTEXT


def test_chats_take_what_clients_send(http, tokenizer):
    expected = chat(http)
    parts = [{"role": "user", "content": [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]}]
    for fields in (
        {"messages": parts},
        {"max_completion_tokens": CONTEXT, "max_tokens": 1},
        {"user": "me", "an_unknown_field": 1, "metadata": {"a": "b"}, "store": False, "tools": [], "tool_choice": "auto", "seed": None},
        {"response_format": {"type": "text"}, "stop": None, "temperature": 0, "model": None, "chat_template_kwargs": {"x": 1}},
    ):
        assert chat(http, **fields)["choices"] == expected["choices"]
    assert chat(http, max_completion_tokens=2, max_tokens=9)["usage"]["completion_tokens"] == 2


def test_roles_and_tool_calls_reach_the_template(http, tokenizer):
    said = [
        {"role": "developer", "content": "d"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": '{"a": 1}'}}]},
        {"role": "tool", "content": "t", "tool_call_id": "1"},
    ]
    tokens = http.post("/tokenize", json={"messages": said}).json()["tokens"]
    assert tokenizer.decode(tokens, special=True).startswith("<|begin|><|system|>d<|turn|><|assistant|><|turn|><|tool|>t")


def test_texts_and_tokens_both_ways(http, tokenizer):
    made = http.post("/tokenize", json={"model": "fake", "prompt": "the é"}).json()
    assert made == {"tokens": tokenizer.encode("the é"), "count": len(made["tokens"]), "max_model_len": CONTEXT}
    assert http.post("/detokenize", json={"tokens": made["tokens"]}).json() == {"prompt": "the é"}


def test_models_health_and_metrics(http):
    listed = http.get("/v1/models").json()
    assert [one["id"] for one in listed["data"]] == ["fake"]
    assert http.get("/v1/models/fake").json() == listed["data"][0]
    assert http.get("/health").json() == {"status": "ok", "state": "ready"}
    for path in ("/health", "/metrics"):
        answer = http.head(path)
        assert (answer.status_code, answer.content) == (200, b"")
    before = http.get("/metrics").text
    chat(http, max_tokens=7)
    after = http.get("/metrics").text

    def value(text, name):
        return float(next(line for line in text.splitlines() if line.startswith(f"day0:{name}")).split()[-1])

    assert value(after, "generation_tokens_total{") - value(before, "generation_tokens_total{") == 7
    assert value(after, "num_requests_running{") == 0
    assert value(after, "kv_cache_usage_perc{") == 0.5
    assert 'day0:request_success_total{engine="0",finished_reason="length",model_name="fake"}' in after
    assert "day0:time_to_first_token_seconds_bucket" in after


def test_the_request_id_comes_back(http):
    assert http.get("/health", headers={"X-Request-Id": "abc-1"}).headers["x-request-id"] == "abc-1"
    assert len(http.get("/health").headers["x-request-id"]) == 32
    assert http.get("/nowhere", headers={"X-Request-Id": "x" * 999}).headers["x-request-id"] != "x" * 999
