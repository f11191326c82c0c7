"""What a download leaves behind: a cache of the hub, pointers of git-lfs, pages of a server in the place of files."""

import shutil
from pathlib import Path

import pytest

from day0.checkpoint.source import named
from day0.spec.errors import Day0Error
from day0.stages.inspect import inspect
from tests.cases.inspected import Inspected, write
from tests.checkpoint.shards import shard_name

INDEX = "model.safetensors.index.json"
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22e\nsize 4995379768\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "model"
    write(found, "llama")
    return found


@pytest.fixture
def snapshot(folder: Path) -> Path:
    """The same release as huggingface_hub keeps it: links into a store of blobs (huggingface.co/docs/huggingface_hub/guides/manage-cache)."""
    root = folder.parent / "models--a-lab--Some-Model"
    found = root / "snapshots" / ("0123456789" * 4)
    found.mkdir(parents=True)
    (root / "blobs").mkdir()
    for number, file in enumerate(sorted(folder.iterdir())):
        shutil.copy(file, root / "blobs" / f"{number:064x}")
        (found / file.name).symlink_to(f"../../blobs/{number:064x}")
    return found


def test_a_snapshot_of_the_hubs_cache(folder: Path, snapshot: Path) -> None:
    plain, inspected = Inspected(folder), Inspected(snapshot)
    assert (inspected.code, inspected.told) == (plain.code, plain.told) == (0, [])
    assert inspected.report.bytes == plain.report.bytes and inspected.report.parameters == plain.report.parameters
    assert inspected.report.model.name == named(snapshot) == "Some-Model"


def test_a_link_into_the_cache_that_leads_nowhere(snapshot: Path) -> None:
    (snapshot / shard_name(2, 2)).resolve().unlink()
    inspected = Inspected(snapshot)
    assert inspected.code == 1 and ("D0203", "fail", shard_name(2, 2)) in inspected.told


def test_the_cache_in_the_place_of_a_snapshot(snapshot: Path) -> None:
    with pytest.raises(Day0Error) as raised:
        inspect(snapshot.parent.parent)
    assert raised.value.problem == "there is no config.json" and "snapshots/" in str(raised.value.hint)


@pytest.mark.parametrize(
    ("text", "words"), [(POINTER, "a pointer of git-lfs"), ("<!DOCTYPE html>\n<html>" + "x" * 999, "text: <!DOCTYPE html> <html>"),
                        ('{"error": "Access to model is restricted"}', 'text: {"error": "Access')],
)  # fmt: skip
def test_a_text_in_the_place_of_a_shard(folder: Path, text: str, words: str) -> None:
    (folder / shard_name(2, 2)).write_text(text)
    inspected = Inspected(folder)
    assert inspected.code == 1 and ("D0101", "fail", shard_name(2, 2)) in inspected.told and words in inspected.found("D0101")
    assert ("git lfs pull" in next(row.hint for row in inspected.report.findings if row.code == "D0101")) == (text == POINTER)


def test_a_pointer_in_the_place_of_the_configuration(folder: Path) -> None:
    (folder / "config.json").write_text(POINTER)
    with pytest.raises(Day0Error) as raised:
        inspect(folder)
    assert "pointer of git-lfs" in raised.value.problem and "git lfs pull" in str(raised.value.hint)


def test_a_pointer_in_the_place_of_the_index(folder: Path) -> None:
    (folder / INDEX).write_text(POINTER)
    inspected = Inspected(folder)
    assert inspected.code == 1 and ("D0202", "fail", INDEX) in inspected.told and "pointer of git-lfs" in inspected.found("D0202")


@pytest.mark.parametrize("other", ["pytorch_model-00001-of-00002.bin", "model-Q4_K_M.gguf", "original/consolidated.00.pth"])
def test_the_same_weights_in_another_container_beside(folder: Path, other: str) -> None:
    plain = Inspected(folder)
    (folder / other).parent.mkdir(exist_ok=True)
    (folder / other).write_bytes(b"GGUF" * 100)
    inspected = Inspected(folder)
    assert (inspected.code, inspected.told, inspected.report.bytes) == (0, [], plain.report.bytes)
