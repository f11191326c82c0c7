"""What becomes of good requests when there are too many, a client goes, or the engine breaks: the service says so and goes on."""

import json
import threading

import httpx
import pytest

from day0.spec.errors import Day0Error
from tests.serve.fake import service
from tests.serve.live import client, until
from tests.serve.test_errors import CHAT, COMPLETE, HELLO, error


def test_a_full_queue_turns_away(tokenizer):
    app, runner, engine = service(tokenizer, max_requests=2)
    engine.pace = 0.2
    with client(app, runner) as http:
        thread = threading.Thread(target=http.post, args=(COMPLETE,), kwargs={"json": {"prompt": ["a", "b"], "max_tokens": 5}})
        thread.start()
        until(lambda: engine.running == 2)
        answer = http.post(COMPLETE, json={"prompt": "c"})
        assert error(answer, 503)["code"] == "queue_full"
        assert int(answer.headers["retry-after"]) >= 1
        thread.join()
        engine.pace = 0
        assert http.post(COMPLETE, json={"prompt": "c"}).status_code == 200
        assert error(http.post(COMPLETE, json={"prompt": ["c"] * 3}), 400)
        assert 'admission_rejections_total{engine="0",model_name="fake",reason="queue_full"} 1.0' in http.get("/metrics").text


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_frees_the_engine(tokenizer, stream):
    app, runner, engine = service(tokenizer)
    engine.pace = 0.01
    with client(app, runner) as http:
        for where, body in ((CHAT, {"messages": HELLO}), (COMPLETE, {"prompt": ["a", "b"], "n": 2})):
            engine.pace = 1.0
            with httpx.Client(base_url=http.base_url, timeout=0.3) as other, pytest.raises(httpx.ReadTimeout):
                other.post(where, json={**body, "stream": stream, "max_tokens": 40})
            engine.pace = 0.01
            until(lambda: engine.running == 0)
        assert len(engine.cancelled) == 5
        assert "day0:num_requests_running" in http.get("/metrics").text
        assert runner.metrics.ends["cancelled"] == 5


def test_a_stream_that_is_left_frees_the_engine(tokenizer):
    app, runner, engine = service(tokenizer)
    engine.pace = 0.02
    with client(app, runner) as http:
        with http.stream("POST", CHAT, json={"messages": HELLO, "stream": True, "max_tokens": 40}) as answer:
            lines = answer.iter_lines()
            for _ in range(6):
                next(lines)
        until(lambda: engine.running == 0)
        assert engine.cancelled


def test_silence_is_kept_alive(tokenizer):
    app, runner, engine = service(tokenizer, keep_alive=0.05)
    engine.pace = 0.3
    with client(app, runner) as http:
        body = http.post(COMPLETE, json={"prompt": "ab", "max_tokens": 2, "stream": True}).text
    assert body.count(": keep-alive\n\n") >= 4
    assert body.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize("stream", [True, False])
def test_one_poisoned_request_ends_alone(tokenizer, stream):
    app, runner, engine = service(tokenizer)
    engine.poison = tokenizer.encode("z")[0]
    with client(app, runner) as http:
        found = error(http.post(COMPLETE, json={"prompt": "zab", "stream": stream}), 500)
        assert "not finite" in found["message"]
        assert http.post(COMPLETE, json={"prompt": "abz", "max_tokens": 2}).json()["choices"][0]["text"] == "ab"
        late = http.post(COMPLETE, json={"prompt": "abz", "max_tokens": 5, "stream": stream})
        if stream:
            events = [json.loads(line[6:]) for line in late.text.splitlines() if line.startswith("data: {")]
            assert [event["choices"][0]["text"] for event in events[:-1]] == ["a", "b"]
            assert "not finite" in events[-1]["error"]["message"]
            assert late.text.endswith("data: [DONE]\n\n")
        else:
            error(late, 500)
        assert http.get("/health").status_code == 200


@pytest.mark.parametrize(("explode", "stream"), [(0, True), (0, False), (3, True), (3, False)])
def test_a_broken_engine_ends_everything_and_says_so(tokenizer, explode, stream):
    app, runner, engine = service(tokenizer)
    engine.explode = explode
    with client(app, runner) as http:
        answer = http.post(COMPLETE, json={"prompt": "ab", "stream": stream, "max_tokens": 9})
        assert "0xdeadbeef" not in answer.text
        if explode and stream:
            assert answer.text.count('"text"') == 3
            assert answer.text.count('"error"') == 1
            assert answer.text.endswith("data: [DONE]\n\n")
        else:
            error(answer, 500)
        assert http.get("/health").status_code == 503
        assert http.get("/health").json()["state"] == "failed"
        assert error(http.post(COMPLETE, json={"prompt": "ab"}), 503)["code"] == "engine_failed"


def test_loading_is_told(tokenizer):
    gate = threading.Event()

    def start(progress):
        progress("read weights", 21, 50)
        gate.wait()
        return engine

    app, runner, engine = service(tokenizer, start)
    with client(app, runner, wait=False) as http:
        until(lambda: runner.phase == "read weights")
        answer = http.get("/health")
        told = answer.json()
        assert (answer.status_code, told["state"], told["phase"], told["progress"]) == (503, "starting", "read weights", 0.42)
        assert error(http.post(CHAT, json={"messages": HELLO}), 503)["code"] == "starting"
        assert http.get("/v1/models").status_code == 200
        gate.set()
        until(lambda: runner.state == "ready")
        assert http.get("/health").status_code == 200


def test_a_failed_start_is_told(tokenizer):
    def start(progress):
        raise Day0Error("a shard is missing", "/secret/place")

    app, runner, _ = service(tokenizer, start)
    with client(app, runner, wait=False) as http:
        until(lambda: runner.state == "failed")
        assert http.get("/health").json()["reason"] == "a shard is missing"


def test_answers_end_before_the_server_does(tokenizer):
    app, runner, engine = service(tokenizer)
    engine.pace = 0.05
    found = []

    def ask(address):
        found.append(httpx.post(f"{address}{COMPLETE}", json={"prompt": "ab", "max_tokens": 10}, timeout=30))

    with client(app, runner) as http:
        thread = threading.Thread(target=ask, args=(str(http.base_url).rstrip("/"),))
        thread.start()
        until(lambda: engine.running == 1)
    thread.join()
    assert found[0].json()["choices"][0]["text"] == "ab" * 5
    assert runner.state == "stopped"


def test_many_clients_get_their_own_answers(tokenizer):
    app, runner, engine = service(tokenizer)
    engine.pace = 0.001
    words = [f"marker{i}x" for i in range(12)]
    found = {}

    def ask(http, word, stream):
        answer = http.post(COMPLETE, json={"prompt": word, "max_tokens": 3 * len(word), "stream": stream})
        events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")] if stream else [answer.json()]
        found[word] = "".join(event["choices"][0]["text"] for event in events)

    with client(app, runner) as http:
        threads = [threading.Thread(target=ask, args=(http, word, i % 2 == 0)) for i, word in enumerate(words)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        expected = {word: tokenizer.decode((tokenizer.encode(word) * 40)[: 3 * len(word)]) for word in words}
        assert found == expected
        until(lambda: engine.running == 0)
