"""Releases at addresses: what is read is what a folder would have given, and little of it."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from day0.checkpoint import ranges
from day0.checkpoint.source import address, at, holds, named
from day0.spec.errors import Day0Error
from day0.stages.inspect import inspect
from tests.checkpoint.shards import shard_name, write_index, write_release, write_shard
from tests.cli.conftest import EXAMPLE
from tests.remote.web import COMMIT, REPOSITORY, Handler, Web, web

HUB = f"hf://{REPOSITORY}"
LARGE = {"a.weight": ("BF16", [1 << 15, 1 << 15])}  # 2 GiB, a hole on this disk


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    """Serves the embedded model; a test may give it another folder."""
    monkeypatch.setattr(ranges, "PAUSE", 0.0)
    with web(EXAMPLE) as found:
        monkeypatch.setenv("HF_ENDPOINT", found.root)
        yield found


def large(folder: Path, shards: int = 3) -> Path:
    """A release of 2 GiB a shard."""
    write_release(folder, [{f"{number}.{name}": tensor for name, tensor in LARGE.items()} for number in range(shards)])
    return folder


def said(report: Any) -> dict[str, Any]:
    """What does not depend on where the release lies, nor on values of its weights."""
    return {key: value for key, value in report.to_dict().items() if key not in ("provenance", "source", "model", "norms", "checks")}


@pytest.mark.parametrize("place", [HUB, f"{HUB}@main", f"{HUB}@{COMMIT}", "files", Path(HUB)])
def test_an_address_gives_what_the_folder_gives(server: Web, place: Any) -> None:
    report, local = inspect(f"{server.root}/files" if place == "files" else place), inspect(EXAMPLE)
    assert said(report) == said(local) and report.norms == [] and {*local.checks} - {*report.checks} == {"D0313"}
    assert [entry.sha256 for entry in report.provenance.inputs] == [entry.sha256 for entry in local.provenance.inputs]
    assert report.source is not None
    if place == "files":
        assert (report.source.kind, report.source.revision, report.model.name) == ("https", None, "files")
    else:
        assert (report.source.kind, report.source.revision, report.model.name) == ("hub", COMMIT, "tiny-model")
        assert report.model.folder == f"{HUB}@{COMMIT}"
        assert report.source.bytes_total == sum(path.stat().st_size for path in EXAMPLE.iterdir())


def test_heads_longer_than_the_first_piece(server: Web, tmp_path: Path) -> None:
    server.folder = tmp_path
    write_release(tmp_path, [{f"layers.{n}.{'x' * 80}.weight": ("F32", [1]) for n in range(2000)}])
    for place in (HUB, f"{server.root}/files"):
        report = inspect(place)
        assert report.files[0].tensors == 2000
        assert report.provenance.inputs[-1].sha256 == inspect(tmp_path).provenance.inputs[-1].sha256


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("place", [HUB, "files"])
def test_a_thousandth_of_the_bytes_is_read(server: Web, tmp_path: Path, place: str, ranges: bool) -> None:
    """Also where the server ignores ranges and sends files from their start: reading stops behind the head."""
    server.folder, server.ranges = large(tmp_path), ranges
    source = inspect(f"{server.root}/files" if place == "files" else place).source
    assert source is not None and source.bytes_total > 6 << 30
    assert source.bytes_read < source.bytes_total / 1000
    assert server.sent < source.bytes_total / 50  # what lay in buffers when the reader hung up counts too


def test_an_absent_shard_is_a_finding(server: Web, tmp_path: Path) -> None:
    server.folder = large(tmp_path)
    (tmp_path / shard_name(2, 3)).unlink()
    for place in (HUB, f"{server.root}/files"):
        assert ("D0203", shard_name(2, 3)) in [(finding.code, finding.subject) for finding in inspect(place).findings]


def test_copies_in_two_shards_are_not_fetched(server: Web, tmp_path: Path) -> None:
    server.folder = tmp_path
    for number in (1, 2):
        write_shard(tmp_path / shard_name(number, 2), {**LARGE, f"{number}.weight": ("F32", [1])})
    write_index(tmp_path, {"a.weight": shard_name(2, 2), "1.weight": shard_name(1, 2), "2.weight": shard_name(2, 2)}, (2 << 30) + 8)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "none"}))
    (finding,) = [finding for finding in inspect(HUB).findings if finding.code == "D0207"]
    assert "their bytes cannot be compared" in finding.found


def test_the_token_goes_to_the_hub_alone(server: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub sends readers of large files to another host."""
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with web(EXAMPLE) as elsewhere:

        def redirect(handler: Handler) -> bool:
            name = handler.path.rpartition("/")[2]
            return "/resolve/" in handler.path and handler.answer(302, headers={"Location": f"{elsewhere.root}/files/{name}?key=a b"})

        server.fault = redirect
        elsewhere.fault = lambda handler: setattr(handler, "path", handler.path.partition("?")[0]) or False
        assert said(inspect(HUB)) == said(inspect(EXAMPLE))
        assert {headers.get("authorization") for _, headers in server.asked} == {"Bearer hf_secret"}
        assert elsewhere.asked and not any("authorization" in headers for _, headers in elsewhere.asked)


@pytest.mark.parametrize(("status", "hint"), [(401, "HF_TOKEN"), (404, "check the name"), (403, "conditions"), (429, "fewer"), (500, "network")])
def test_a_hub_that_refuses(server: Web, status: int, hint: str) -> None:
    server.fault = lambda handler: handler.path.startswith("/api/") and handler.answer(status)
    with pytest.raises(Day0Error) as caught:
        inspect(HUB)
    assert caught.value.where == HUB
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(("place", "problem"), [
    ("hf://a/b/c", "not a model of a hub"), ("hf://", "not a model of a hub"), ("hf://../..", "the hub cannot be asked"),
    ("https://", "not the address of a folder"), ("https://user:secret@host/x", "not the address of a folder"),
    ("https://host/x?key=secret", "not the address of a folder"),
])  # fmt: skip
def test_addresses_that_are_none(place: str, problem: str) -> None:
    with pytest.raises(Day0Error) as caught:
        at(place)
    assert caught.value.problem.startswith(problem) and caught.value.hint
    assert "secret" not in str(caught.value)


def test_without_the_library_of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(Day0Error, match="pip install 'day0"):
        at(HUB)


def test_names_of_places() -> None:
    assert address(Path("hf://a/b")) == "hf://a/b" and address("https://h/x/") == "https://h/x" and address("a/hf:/b") == ""
    assert [named(place) for place in ("hf://a/b@refs/pr/1", "https://h/a/b/resolve/main", "https://h/x", Path("x/y"))] == ["b", "b", "x", "y"]
    file = f"{HUB}@{COMMIT}/config.json"
    assert holds(HUB, file) and holds(f"{HUB}@main", file) and holds(f"{HUB}@{COMMIT}", file)
    assert not holds(f"{HUB}@{'0' * 40}", file) and not holds("hf://a/b", file) and not holds("tiny-model", file)
    assert not holds(HUB, "/models/tiny-model/config.json")
