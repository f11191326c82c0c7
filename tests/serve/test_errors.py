"""Bad requests: located errors in OpenAI's shape, before any stream begins."""

import json

import pytest

from day0.serve.listen import bind
from day0.spec.errors import Day0Error
from tests.serve.fake import CONTEXT, VOCAB, service
from tests.serve.live import client

CHAT, COMPLETE = "/v1/chat/completions", "/v1/completions"
HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def http(tokenizer):
    app, runner, _ = service(tokenizer, max_body=200_000)
    with client(app, runner) as http:
        yield http


def error(answer, status):
    assert answer.status_code == status, answer.text
    found = answer.json()["error"]
    assert set(found) == {"message", "type", "param", "code"}
    assert found["message"]
    assert len(found["message"]) < 500
    return found


BAD_FIELDS = [
    ("temperature", -300), ("temperature", "hot"), ("temperature", 2.1), ("top_p", 42), ("top_p", 0), ("presence_penalty", -100),
    ("frequency_penalty", 100), ("n", 0), ("n", -1), ("max_tokens", -1), ("seed", 2**63), ("stop", ["a"] * 5), ("stop", [1]), ("stop", ""),
    ("stop", "x" * 2000), ("logit_bias", {"x": 1}), ("logit_bias", {str(VOCAB): 1}), ("logit_bias", {"1": 101}), ("logit_bias", {"-1": 1}),
    ("min_p", 2), ("repetition_penalty", 0), ("stop_token_ids", [-1]), ("stream_options", {"include_usage": 3}),
    ("min_tokens", 99), ("response_format", {"type": "json_object"}), ("tools", [{"type": "invalid"}]), ("tool_choice", "required"),
    ("tool_choice", "invalid"), ("guided_json", {}), ("best_of", 2), ("suffix", "x"), ("include_stop_str_in_output", True),
]  # fmt: skip


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("field", "value"), BAD_FIELDS)
def test_bad_fields_are_named_before_any_stream(http, field, value, stream):
    for path, body in ((CHAT, {"messages": HELLO}), (COMPLETE, {"prompt": "hello"})):
        found = error(http.post(path, json={"max_tokens": 9, **body, "stream": stream, field: value}), 400)
        assert (found["type"], found["param"].partition(".")[0].partition("[")[0]) == ("invalid_request_error", field)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("prompt", "param"),
    [("", "prompt"), ([""], "prompt[0]"), ([], "prompt"), ([[]], "prompt[0]"), ([[-1]], "prompt[0]"), ([[10**9]], "prompt[0]"),
     ([10**30], "prompt"), (None, "prompt"), (3, "prompt"), ({"a": 1}, "prompt"), ([True], "prompt[0]"), (["a", None], "prompt[1]"),
     ([[1, "a"]], "prompt[0]"),
     ([1, "a"], "prompt"), (["a"] * 3000, "prompt")],
)  # fmt: skip
def test_prompts_that_are_none(http, prompt, param, stream):
    assert error(http.post(COMPLETE, json={"prompt": prompt, "stream": stream}), 400)["param"] == param
    assert http.post(COMPLETE, json={"prompt": "a"}).status_code == 200


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("messages", "param"),
    [([], "messages"), ("x", "messages"), ([{"role": "robot", "content": "x"}], "messages[0].role"),
     ([{"role": "user"}], "messages[0].content"), ([{"content": "x"}], "messages[0].role"), ([3], "messages[0]"),
     ([{"role": "user", "content": None}], "messages[0].content"),
     ([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///etc/hostname"}}]}], "messages[0].content[0]"),
     ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content[0]"),
     ([{"role": "user", "content": [1]}], "messages[0].content")],
)  # fmt: skip
def test_messages_that_are_none(http, messages, param, stream):
    assert error(http.post(CHAT, json={"messages": messages, "stream": stream}), 400)["param"] == param


def test_empty_and_blank_turns_are_answered(http):
    for text in ("", "   "):
        assert http.post(CHAT, json={"messages": [{"role": "user", "content": text}], "max_tokens": 1}).status_code == 200


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"3", b"\xff\xfe", b'{"prompt": NaN}', b'{"prompt": "a", "temperature": NaN}', b"[" * 50_000,
     b'{"prompt": "\\ud800"}', b'{"prompt": "a", "model": "\\ud800"}', b'{"prompt": "a", "max_tokens": ' + b"9" * 5000 + b"}",
     b'{"prompt": ["\\udfff"]}'],
)  # fmt: skip
def test_bodies_that_are_no_request(http, body):
    answer = http.post(COMPLETE, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 404)
    error(answer, answer.status_code)


def test_surrogates_and_depth_inside_messages(http):
    deep = "[" * 500 + "]" * 500
    for inside in ('"\\ud800"', f'[{{"type": "text", "text": "\\ud800"}}, {deep}]', deep):
        body = f'{{"messages": [{{"role": "user", "content": {inside}}}]}}'
        error(http.post(CHAT, content=body, headers={"Content-Type": "application/json"}), 400)
    body = f'{{"messages": [{{"role": "user", "content": "x", "odd": {deep}}}], "max_tokens": 1}}'
    assert http.post(CHAT, content=body, headers={"Content-Type": "application/json"}).status_code in (200, 400)


@pytest.mark.parametrize("stream", [True, False])
def test_prompts_beyond_the_plan(http, stream):
    found = error(http.post(COMPLETE, json={"prompt": "a" * (CONTEXT + 1), "stream": stream}), 400)
    assert (found["code"], found["param"]) == ("context_length_exceeded", "prompt")
    assert str(CONTEXT) in found["message"] and str(CONTEXT + 1) in found["message"]
    long = [{"role": "user", "content": "a" * CONTEXT}]
    assert error(http.post(CHAT, json={"messages": long, "stream": stream}), 400)["code"] == "context_length_exceeded"


def test_what_is_not_there(http):
    assert error(http.post(CHAT, json={"model": "other", "messages": HELLO}), 404)["code"] == "model_not_found"
    assert error(http.get("/v1/models/other/x"), 404)["code"] == "model_not_found"
    error(http.get("/nowhere"), 404)
    error(http.get(CHAT), 405)


def test_bodies_that_are_too_large(http):
    big = json.dumps({"prompt": "a" * 300_000}).encode()
    assert error(http.post(COMPLETE, content=big), 413)["code"] == "body_too_large"
    assert error(http.post(COMPLETE, content=iter([big[:150_000], big[150_000:]])), 413)["code"] == "body_too_large"
    assert http.post(COMPLETE, json={"prompt": "a"}).status_code == 200


def test_template_errors_are_the_clients(tokenizer, tmp_path):
    from day0.engine.text import Tokenizer

    (tmp_path / "tokenizer.json").write_bytes((tokenizer.folder / "tokenizer.json").read_bytes())
    (tmp_path / "chat_template.jinja").write_text("{{ raise_exception('roles must alternate') }}")
    app, runner, _ = service(Tokenizer.open(tmp_path))
    with client(app, runner) as http:
        found = error(http.post(CHAT, json={"messages": HELLO, "stream": True}), 400)
        assert "roles must alternate" in found["message"]
        assert str(tmp_path) not in found["message"]


@pytest.mark.parametrize("header", [{"Authorization": "Bearer two"}, {"x-api-key": "one"}, {"authorization": "bearer one"}])
def test_keys_open_the_service(tokenizer, header):
    app, runner, _ = service(tokenizer, api_keys=("one", "two"))
    with client(app, runner) as http:
        assert http.get("/v1/models", headers=header).status_code == 200
        for bad in ({}, {"Authorization": "Bearer three"}, {"Authorization": "one"}, {"x-api-key": ""}, {"Authorization": "Bearer"}):
            found = error(http.get("/v1/models", headers=bad), 401)
            assert found["code"] == "invalid_api_key"
        assert error(http.post(CHAT, content=b"{"), 401)
        assert http.get("/health").status_code == http.get("/metrics").status_code == 200


def test_a_port_in_use_is_named():
    taken = bind("127.0.0.1", 0)
    port = taken.getsockname()[1]
    with pytest.raises(Day0Error, match=f"port {port} on 127.0.0.1 is in use"):
        bind("127.0.0.1", port)
    taken.close()
    bind("127.0.0.1", port).close()
    with pytest.raises(Day0Error, match="no address"):
        bind("no.such.host.invalid", port)
