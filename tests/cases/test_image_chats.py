"""Images in conversations: counts of placeholders, addresses that must not be fetched, and servers that stay alive."""

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("transformers")
pytest.importorskip("PIL")

from PIL import Image

from tests.vision.drawn import drawn
from tests.vision.service import ask, encoded, picture, serving, uri, user, words
from tests.vision.test_towers import eye
from tests.vision.zoo import IMAGE

NAME = "glm5_next"
SMALL = [(1, 1), (1, 300), (27, 257), (26, 28), (10000, 2), (20000, 10)]


@pytest.fixture(scope="module")
def http() -> Iterator[Any]:
    with serving(NAME) as client:
        yield client


def counted(http: Any, *messages: dict[str, Any], **fields: Any) -> int:
    answer = ask(http, *messages, **fields)
    assert answer.status_code == 200, answer.text
    return answer.json()["usage"]["prompt_tokens"]


def tokens_of(size: tuple[int, int]) -> int:
    """By the processor of transformers."""
    from transformers.models.glm5_next.image_processing_pil_glm5_next import smart_resize

    rows, columns = smart_resize(num_frames=2, height=size[1], width=size[0], factor=8, min_pixels=2, max_pixels=24)
    return rows * columns // 64


@pytest.mark.parametrize("size", SMALL)
def test_small_sides_are_answered_and_counted(http: Any, size: tuple[int, int]) -> None:
    one = counted(http, user(picture(uri(encoded(drawn(size)))), words("What is it?")))
    assert one == counted(http, user(words("What is it?"))) + 2 + tokens_of(size)  # two marks around the image


@pytest.mark.parametrize(
    "image",
    [
        Image.new("RGBA", (20, 20), (9, 9, 9, 9)), Image.new("I;16", (20, 20), 40000), drawn((20, 20)).quantize(7), Image.new("L", (20, 20)),
        Image.new("1", (20, 20)),
    ],
    ids=lambda image: image.mode,
)  # fmt: skip
def test_kinds_of_pixels(http: Any, image: Image.Image) -> None:
    assert counted(http, user(picture(uri(encoded(image))), words("?"))) > 0


@pytest.mark.parametrize(
    "address",
    [
        uri(encoded(drawn((64, 64)), "JPEG")[:500]), uri(b"a text named cat.png"), "data:image/png;base64,", "data:image/png;base64,***",
        uri(b"\x89PNG\r\n\x1a\n" + bytes(40)),
    ],
    ids=["truncated", "text", "empty", "no base64", "header"],
)  # fmt: skip
def test_broken_images_are_the_clients_fault(http: Any, address: str) -> None:
    answer = ask(http, user(words("What is it?"), picture(address)))
    error = answer.json()["error"]
    assert answer.status_code == 400 and error["param"] == "messages[0].content[1]"
    assert error["message"].startswith("messages[0].content[1]: ") and error["type"] == "invalid_request_error"
    assert counted(http, user(words("What is it?"))) > 0


@pytest.mark.parametrize(
    "address",
    [
        "file:///etc/hostname", "http://127.0.0.1:9/x", "http://169.254.169.254/", "https://example.com/cat.png", "ftp://example.com/cat.png",
        "/etc/hostname", "//example.com/cat.png", "HTTP://127.0.0.1/", "gopher://127.0.0.1/",
    ],
)  # fmt: skip
def test_nothing_is_fetched(http: Any, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import urllib.request

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("something was opened")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    answer = ask(http, user(picture(address)))
    assert answer.status_code == 400 and "is not fetched" in answer.json()["error"]["message"]
    assert "data:image/png;base64" in answer.json()["error"]["message"]


def test_a_body_of_two_hundred_megabytes_is_refused(http: Any) -> None:
    answer = http.post("/v1/chat/completions", content=b"x" * (33 << 20), headers={"Content-Type": "application/json"})
    assert answer.status_code == 413 and answer.json()["error"]["code"] == "body_too_large"
    declared = http.build_request("POST", "/v1/chat/completions", content=b"{}", headers={"Content-Type": "application/json"})
    declared.headers["Content-Length"] = str(200 << 20)
    assert counted(http, user(words("Still there?"))) > 0


def test_images_in_several_turns(http: Any) -> None:
    """Images of the first and third turn both have their tokens; the same request again is answered the same."""
    one, two = (uri(encoded(drawn(size))) for size in ((30, 30), (16, 40)))
    turns = [user(picture(one), words("What is it?")), {"role": "assistant", "content": "A"}, user(words("And"), picture(two), picture(one))]
    plain = [user(words("What is it?")), turns[1], user(words("And"))]
    expected = sum(tokens_of(size) + 2 for size in ((30, 30), (16, 40), (30, 30)))
    assert counted(http, *turns) == counted(http, *plain) + expected
    first, again = (ask(http, *turns).json()["choices"][0]["message"]["content"] for _ in range(2))
    assert first == again
    swapped = [user(picture(two), words("What is it?")), turns[1], user(words("And"), picture(one), picture(one))]
    assert counted(http, *swapped) == counted(http, *plain) + sum(tokens_of(size) + 2 for size in ((16, 40), (30, 30), (30, 30)))


def test_text_that_spells_the_placeholder_is_refused(http: Any) -> None:
    for messages in ([user(words("Is <|image|> a word?"))], [user(picture(uri(encoded(drawn((9, 9))))), words("and <|image|>"))]):
        answer = ask(http, *messages)
        assert answer.status_code == 400 and "image placeholders for" in answer.json()["error"]["message"]


def test_usage_of_streams_counts_images(http: Any) -> None:
    """With include_usage the last chunk has the counts of the whole answer; without, there is none."""
    message = user(picture(uri(encoded(drawn((30, 30))))), words("What is it?"))
    expected = counted(http, message)
    for include in (True, False, None):
        options = {} if include is None else {"stream_options": {"include_usage": include}}
        text = ask(http, message, stream=True, **options).text
        import json

        chunks = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
        last = chunks[-1]
        if include:
            assert last["choices"] == [] and last["usage"]["prompt_tokens"] == expected
        else:
            assert last["choices"] and all(chunk.get("usage") is None for chunk in chunks)


def test_an_address_as_plain_text_and_parts_that_are_wrong(http: Any) -> None:
    whole = {"type": "image_url", "image_url": uri(encoded(drawn((9, 9))))}
    assert counted(http, user(whole, words("?"))) > 0
    for part in ({"type": "image_url"}, {"type": "image_url", "image_url": {"url": 3}}, {"type": "image_url", "image_url": []}):
        answer = ask(http, user(part))
        assert answer.status_code == 400 and "needs image_url.url" in answer.json()["error"]["message"]
    many = user(*(picture(uri(encoded(drawn((1, 1))))) for _ in range(65)))
    assert "more than 64 images" in ask(http, many).json()["error"]["message"]


def test_a_conversation_too_long_for_the_plan_is_refused(http: Any) -> None:
    """The count is that of the prompt with all embeddings, not of its text."""
    parts = [picture(uri(encoded(drawn((90, 90))))) for _ in range(30)]
    answer = ask(http, user(*parts))
    assert answer.status_code == 400 and answer.json()["error"]["code"] == "context_length_exceeded"


def test_tokenize_counts_images(http: Any) -> None:
    message = user(picture(uri(encoded(drawn((30, 30))))), words("What is it?"))
    found = http.post("/tokenize", json={"messages": [message]}).json()
    assert found["count"] == counted(http, message) and found["tokens"].count(IMAGE) == tokens_of((30, 30))


def test_a_service_without_vision_says_so() -> None:
    with serving(NAME, vision=False) as http:
        answer = ask(http, user(picture(uri(encoded(drawn((9, 9)))))))
        assert answer.status_code == 400 and "this server takes no images" in answer.json()["error"]["message"]


def test_what_the_service_says_of_an_image_is_what_the_engine_says(http: Any) -> None:
    from day0.engine.eye import place
    from day0.engine.tokenizer import Tokenizer
    from day0.spec.request import Request
    from tests.engine.opened import run
    from tests.vision.test_towers import engine
    from tests.vision.zoo import checkpoint

    tokenizer = Tokenizer.open(checkpoint(NAME))
    text = tokenizer.chat([{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is it?"}]}])
    tokens, images = place(tokenizer.encode(text), [eye(NAME).see(drawn((30, 30)))], IMAGE)
    ends = tokenizer.eos
    answer = run(engine(NAME), Request(id="a", tokens=tuple(tokens), max_new=4, images=images, stop_tokens=ends))["a"]
    said = ask(http, user(picture(uri(encoded(drawn((30, 30))))), words("What is it?"))).json()
    assert said["usage"]["completion_tokens"] == len(answer.tokens)
    kept = [token for token in answer.tokens if token not in ends]
    assert said["choices"][0]["message"]["content"] == tokenizer.decode(kept)
