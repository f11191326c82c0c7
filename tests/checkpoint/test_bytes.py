"""Bytes go straight from the file into the caller's memory; a file that ends early is an error."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from day0.checkpoint import bytes
from day0.checkpoint.headers import read_shard
from day0.spec.errors import Day0Error


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_file({"a": torch.arange(1000, dtype=torch.int32).float(), "b": torch.ones(7)}, tmp_path / "x.safetensors")
    return tmp_path


def test_whole_and_part(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bytes, "CALL", 64)
    header = read_shard(folder, "x.safetensors").tensors["a"]
    out = torch.empty(1000)
    bytes.read(folder, header, memoryview(out.numpy()).cast("B"))
    assert torch.equal(out, torch.arange(1000).float())
    part = torch.empty(10)
    bytes.read(folder, header, memoryview(part.numpy()).cast("B"), offset=4 * 500)
    assert torch.equal(part, torch.arange(500, 510).float())


def test_a_file_that_ends_early(folder: Path) -> None:
    path = folder / "x.safetensors"
    header = read_shard(folder, "x.safetensors").tensors["a"]
    path.write_bytes(path.read_bytes()[: header.start + 100])
    with pytest.raises(Day0Error, match="ends 3900 bytes early") as error:
        bytes.read(folder, header, memoryview(bytearray(4000)))
    assert error.value.where == str(path) and error.value.hint


def test_a_file_that_is_gone(folder: Path) -> None:
    header = read_shard(folder, "x.safetensors").tensors["b"]
    (folder / "x.safetensors").unlink()
    with pytest.raises(Day0Error, match="b cannot be read"):
        bytes.read(folder, header, memoryview(bytearray(28)))
