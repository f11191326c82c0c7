"""Servers that do something else than send the range that was asked for: an error with a place, in bounded bytes and time."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from day0.checkpoint import ranges
from day0.checkpoint.ranges import Ranges
from day0.spec.errors import Day0Error
from tests.remote.web import Handler, Web, web

CONTENT = bytes(range(256)) * 1000
SIZE = len(CONTENT)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    """Serves one file."""
    monkeypatch.setattr(ranges, "PAUSE", 0.0)
    (tmp_path / "file").write_bytes(CONTENT)
    with web(tmp_path) as found:
        yield found


def piece(server: Web, start: int = 1000, count: int = 5000) -> tuple[bytes, int] | None:
    return Ranges().piece(f"{server.root}/files/file", start, count)


@pytest.mark.parametrize("support", [True, False])
@pytest.mark.parametrize(("start", "count"), [(0, 8), (1000, 5000), (SIZE - 10, 100), (SIZE, 5), (0, 10 * SIZE)])
def test_pieces(server: Web, support: bool, start: int, count: int) -> None:
    server.ranges = support
    assert piece(server, start, count) == (CONTENT[start : start + count], SIZE)


def test_an_empty_file_and_none(server: Web) -> None:
    (server.folder / "file").write_bytes(b"")
    assert piece(server, 0, 10) == (b"", 0)
    (server.folder / "file").unlink()
    assert piece(server) is None


def test_more_than_is_ever_read(server: Web) -> None:
    with pytest.raises(Day0Error, match="at most 128 MiB of a file are read"):
        piece(server, 0, ranges.LARGEST + 1)
    assert server.asked == []


def partial(handler: Handler, body: bytes, said: str, *, length: int | None = None, status: int = 206, **headers: str) -> bool:
    """An answer with a Content-Range of its own."""
    extra = {"Content-Range": said, "Content-Length": str(len(body) if length is None else length)}
    return handler.answer(status, body, extra | {key.replace("_", "-"): value for key, value in headers.items()})


def test_a_dropped_connection_goes_on_where_it_ended(server: Web) -> None:
    """Half of what is wanted, then silence, three times."""
    asked = []

    def half(handler: Handler) -> bool:
        start, end = handler.wanted(SIZE) or (0, 0)
        asked.append((start, end))
        if len(asked) > 3:
            return False
        return partial(handler, CONTENT[start : (start + end) // 2], f"bytes {start}-{end - 1}/{SIZE}", length=end - start)

    server.fault = half
    assert piece(server, 0, 8000) == (CONTENT[:8000], SIZE)
    assert asked == [(0, 8000), (4000, 8000), (6000, 8000), (7000, 8000)]


def test_a_connection_that_always_drops(server: Web) -> None:
    server.fault = lambda handler: partial(handler, b"", f"bytes 1000-5999/{SIZE}", length=5000)
    with pytest.raises(Day0Error, match=r"files/file: the connection fails: it ends 5000 bytes early, 5 times"):
        piece(server)
    assert len(server.asked) == ranges.TRIES


def test_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "PAUSE", 0.0)
    with web(Path()) as gone:
        url = gone.root
    with pytest.raises(Day0Error, match="the connection fails"):
        Ranges().piece(f"{url}/file", 0, 8)


@pytest.mark.parametrize(("said", "length", "problem"), [
    (f"bytes 0-4999/{SIZE}", 5000, "asked for bytes 1000 to 5999, the server sends"),
    (f"bytes 1000-1999/{SIZE}", 1000, "asked for bytes 1000 to 5999, the server sends"),
    ("bytes 1000-5999/3000", 5000, "asked for bytes 1000 to 5999, the server sends"),
    ("bytes 1000-5999/*", 5000, "asked for a range, the server answers 206"),
    ("", 5000, "asked for a range, the server answers 206"),
    (f"bytes 1000-5999/{SIZE}", 4000, "the server sends 4000 bytes and calls them"),
    (f"bytes 1000-5999/{SIZE}", 6000, "the server sends 6000 bytes and calls them"),
])  # fmt: skip
def test_answers_that_contradict_themselves(server: Web, said: str, length: int, problem: str) -> None:
    server.fault = lambda handler: partial(handler, b"x" * length, said)
    with pytest.raises(Day0Error) as caught:
        piece(server)
    assert caught.value.problem.startswith(problem)
    assert caught.value.where == f"{server.root}/files/file"


def test_compressed_or_endless(server: Web) -> None:
    server.fault = lambda handler: partial(handler, b"x" * 5000, f"bytes 1000-5999/{SIZE}", Content_Encoding="gzip")
    with pytest.raises(Day0Error, match="compresses"):
        piece(server)
    server.fault = lambda handler: handler.answer(200, b"x", {"Content-Length": "", "Transfer-Encoding": "chunked"})
    with pytest.raises(Day0Error, match="ignores ranges and does not say how long"):
        piece(server)


@pytest.mark.parametrize(("status", "tries", "hint"), [
    (401, 1, "HF_TOKEN"), (403, 1, "conditions"), (400, 1, None), (429, 5, "wait"), (503, 5, None), (204, 1, None),
])  # fmt: skip
def test_refusals(server: Web, status: int, tries: int, hint: str | None) -> None:
    server.fault = lambda handler: handler.answer(status)
    with pytest.raises(Day0Error, match=f"the server answers {status}") as caught:
        piece(server)
    assert len(server.asked) == tries
    assert hint is None or hint in (caught.value.hint or "")


def test_a_busy_server_is_asked_again(server: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    paused: list[float] = []
    monkeypatch.setattr(time, "sleep", paused.append)
    asks = iter(("3", "100000", "soon"))
    server.fault = lambda handler: len(server.asked) < 4 and handler.answer(429, headers={"Retry-After": next(asks)})
    assert piece(server) == (CONTENT[1000:6000], SIZE)
    assert [seconds for seconds in paused if seconds] == [3.0, ranges.PATIENCE]


@pytest.mark.parametrize(("location", "problem"), [
    ("/files/file", "more than 5 redirects"), ("file:///etc/hostname", "redirected to file:///etc/hostname"), ("ftp://host/x", "redirected to ftp"),
])  # fmt: skip
def test_redirects_have_an_end(server: Web, location: str, problem: str) -> None:
    server.fault = lambda handler: handler.answer(302, headers={"Location": location})
    with pytest.raises(Day0Error, match=problem):
        piece(server)
    assert len(server.asked) <= ranges.HOPS + 1


def test_a_secret_page_is_not_left_for_an_open_one() -> None:
    with pytest.raises(Day0Error, match="not https"):
        ranges._next("https://host/a", "http://host/b", "https://host/a")


def drip(handler: Handler) -> bool:
    """A byte now and then, without end."""
    handler.send_response(206)
    handler.send_header("Content-Range", f"bytes 1000-5999/{SIZE}")
    handler.end_headers()
    for _ in range(200):
        handler.wfile.write(b"x")
        handler.wfile.flush()
        time.sleep(0.05)
    return True


def test_a_server_that_drips(server: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "SILENCE", 0.2)
    monkeypatch.setattr(ranges, "SLOWEST", 1 << 20)
    server.fault = drip
    with pytest.raises(Day0Error, match="slower than"):
        piece(server)


def test_a_server_that_says_nothing(server: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "SILENCE", 0.1)
    monkeypatch.setattr(ranges, "TRIES", 2)
    server.fault = lambda handler: time.sleep(0.5) or True  # type: ignore[func-returns-value]
    with pytest.raises(Day0Error, match="timed out, 2 times"):
        piece(server)


def test_a_listing_that_lies(server: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub says one size, its files have another."""
    from day0.stages.inspect import inspect
    from tests.remote.web import REPOSITORY

    monkeypatch.setenv("HF_ENDPOINT", server.root)
    (server.folder / "config.json").write_text("{}")
    monkeypatch.setattr(Handler, "model", lambda self: {"id": REPOSITORY, "sha": "0" * 40, "siblings": [{"rfilename": "config.json", "size": 7}]})
    monkeypatch.setattr(Handler, "file", lambda self: self.server.folder / "config.json")
    with pytest.raises(Day0Error, match=r"config\.json: has 2 bytes, 7 were announced"):
        inspect(f"hf://{REPOSITORY}")
