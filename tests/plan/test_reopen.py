"""A release that was inspected is opened again from the headers that were kept, and from its files where those are not to be trusted."""

import json
import shutil
from pathlib import Path

import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from day0.checkpoint import folder as opening
from day0.engine.release import Release
from day0.spec.errors import Day0Error
from day0.spec.reports.inspect import InspectReport
from day0.stages.inspect import inspect
from day0.stages.reopen import recall, reopen
from tests.checkpoint.shards import write_release
from tests.engine.opened import families_first
from tests.remote.web import REPOSITORY, web
from tests.zoo import checkpoint, every


def refused(*_: object) -> None:
    raise AssertionError("the headers were read again")


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    found = Path(shutil.copytree(checkpoint("qwen3_moe"), tmp_path / "sharded"))
    assert len(list(found.glob("model-*.safetensors"))) > 1
    return found


@pytest.fixture
def inspected(sharded: Path, tmp_path: Path) -> InspectReport:
    return inspect(sharded, kept=tmp_path / "kept")


def places(release: Release) -> dict[str, tuple[str, int]]:
    return {name: (header.file, header.start) for name, header in release.checkpoint.headers.items()}


@pytest.mark.parametrize("name", families_first(every()))
def test_what_is_kept_is_what_safetensors_reads(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = checkpoint(name)
    report, before = inspect(folder, kept=tmp_path), Release.open(folder)
    for reader in ("read_index", "read_shards"):
        monkeypatch.setattr(opening, reader, refused)
    again = reopen(report)
    assert dict(again.checkpoint.headers.items()) == dict(before.checkpoint.headers.items())
    assert dict(again.checkpoint.stored.items()) == dict(before.checkpoint.stored.items())
    assert again.checkpoint.shards == before.checkpoint.shards and list(again.tensors) == list(before.tensors)
    for file in again.checkpoint.shards:
        with safe_open(folder / file, "pt") as shard:
            told = {key: shard.get_slice(key) for key in shard.keys()}  # noqa: SIM118
            kept = {name: header for name, header in again.checkpoint.headers.items() if header.file == file}
            assert {(n, h.dtype, h.shape) for n, h in kept.items()} == {(n, t.get_dtype(), tuple(t.get_shape())) for n, t in told.items()}


def test_experts_by_the_hundred_lie_where_they_lay(tmp_path: Path) -> None:
    """Banks over several files, of which some lack a weight and some have another type."""
    shards = [
        {f"model.layers.{layer}.mlp.experts.{e}.{part}_proj.weight": ("F8_E4M3" if layer == 3 and e < 9 else "BF16", [4, 4])
         for layer in range(4) for part in ("gate", "up") for e in range(place, 300, 3) if (layer, part) != (1, "up") or e < 200}
        for place in range(3)
    ]  # fmt: skip
    write_release(tmp_path, shards)
    report = inspect(tmp_path, kept=tmp_path / "kept")
    found, checkpoint = recall(report), opening.Checkpoint.open(tmp_path)
    assert found is not None and len(found.headers.banks) == 4 + 2 and len(found.headers) == 4 * 2 * 300 - 100
    assert dict(found.headers.items()) == dict(checkpoint.headers.items())


@pytest.mark.parametrize("spoilt", ["gone", "cut", "another"])
def test_another_file_than_was_kept_is_not_used(inspected: InspectReport, sharded: Path, spoilt: str) -> None:
    assert inspected.headers is not None
    path = Path(inspected.headers.path)
    content = path.read_bytes()
    path.unlink()
    if spoilt != "gone":
        path.write_bytes(content[:-1] if spoilt == "cut" else content.replace(b"BF16", b"F16_") + b" ")
    assert recall(inspected) is None and places(reopen(inspected)) == places(Release.open(sharded))


def test_what_lies_twice_is_where_the_index_says(sharded: Path, tmp_path: Path) -> None:
    """The last shard holds a tensor again that the index places in the first: nothing is kept of such a release."""
    index = json.loads((sharded / "model.safetensors.index.json").read_text())["weight_map"]
    first, *_, last = sorted(set(index.values()))
    name = next(name for name, file in index.items() if file == first)
    copies = load_file(sharded / last) | {name: load_file(sharded / first)[name]}
    save_file(copies, sharded / last, metadata={"format": "pt"})
    inspected = inspect(sharded, kept=tmp_path)
    assert any(finding.code == "D0207" for finding in inspected.findings) and inspected.headers is None
    assert places(reopen(inspected))[name][0] == first


def test_findings_of_a_damaged_release_are_found_again(sharded: Path, tmp_path: Path) -> None:
    shard = sorted(sharded.glob("model-*.safetensors"))[-1]
    shard.write_bytes(shard.read_bytes()[:-8])
    inspected = inspect(sharded, kept=tmp_path)
    assert inspected.verdict == "unsound" and inspected.headers is None and not list(tmp_path.glob("*.npz"))
    assert [finding.code for finding in reopen(inspected).checkpoint.findings if finding.status == "fail"] == ["D0110"]


def test_a_commit_is_read_once_and_a_folder_of_files_compared(sharded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers at an address without a revision may have changed since: they are read again, and a change is an error."""
    with web(sharded) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.root)
        fixed, moving = inspect(f"hf://{REPOSITORY}", kept=tmp_path / "hub"), inspect(f"{server.root}/files", kept=tmp_path / "files")
        server.asked.clear()
        expected = places(Release.open(sharded))
        assert places(reopen(fixed)) == expected and not [path for path in map(str, server.asked) if "model-0" in path]
        assert places(reopen(moving)) == expected and [path for path in map(str, server.asked) if "model-0" in path]
        shard = min(sharded.glob("model-*.safetensors"))
        tensors = load_file(shard)
        save_file({name: tensor.float() for name, tensor in tensors.items()}, shard)
        with pytest.raises(Day0Error, match="has changed since it was inspected"):
            reopen(moving)
