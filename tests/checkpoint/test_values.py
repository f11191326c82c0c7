"""Digests of files and samples of values: what they find, how much they read, and that an interrupted run goes on."""

import hashlib
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from day0.checkpoint import manifest
from day0.checkpoint.deep import LEAST, MOST, sample
from day0.checkpoint.headers import read_shard
from day0.stages.inspect import inspect
from tests.checkpoint.shards import told, write_shard
from tests.zoo import checkpoint

NAMES = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def copied(folder: Path) -> Path:
    folder.mkdir()
    for file in checkpoint("llama").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


def findings(folder: Path, **options) -> list[tuple[str, str, str]]:
    return [found for found in told(inspect(folder, **options).findings) if found[1] != "pass"]


def test_digests_are_those_of_hashlib(tmp_path: Path) -> None:
    folder = copied(tmp_path / "llama")
    report = inspect(folder, hash=True)
    assert {file.name: file.sha256 for file in report.files} == {n: hashlib.sha256((folder / n).read_bytes()).hexdigest() for n in NAMES}
    assert "D0213" in report.checks and report.verdict == "sound"


def test_a_manifest_is_compared(tmp_path: Path) -> None:
    folder = copied(tmp_path / "llama")
    good = hashlib.sha256((folder / NAMES[0]).read_bytes()).hexdigest()
    (folder / "SHA256SUMS").write_text(f"{good}  {NAMES[0]}\n{'0' * 64} *./{NAMES[1]}\nnot a line\n")
    assert findings(folder) == [] and findings(folder, hash=True) == [("D0213", "fail", NAMES[1])]
    (folder / "SHA256SUMS").write_text(f"{good}  {NAMES[0]}\n")
    assert findings(folder, hash=True) == [("D0213", "warn", NAMES[1])]


def test_an_interrupted_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A digest that was kept is not made again, unless the file has changed since; a line that was cut off counts for nothing."""
    folder, kept = copied(tmp_path / "llama"), tmp_path / "kept" / "digests.jsonl"
    first = manifest.digests(folder, NAMES[:1], kept).found
    kept.write_text(kept.read_text() + '["half a li')
    hashed: list[str] = []
    digest = manifest._digest
    monkeypatch.setattr(manifest, "_digest", lambda path: hashed.append(path.name) or digest(path))
    both = manifest.digests(folder, NAMES, kept).found
    assert hashed == [NAMES[1]] and both[NAMES[0]] == first[NAMES[0]]
    (folder / NAMES[0]).write_bytes((folder / NAMES[0]).read_bytes()[:-1] + b"\1")
    assert manifest.digests(folder, NAMES, kept).found[NAMES[0]] != first[NAMES[0]] and hashed == [NAMES[1], NAMES[0]]


TYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 0.5, -0.0])
def test_odd_values_as_torch_counts_them(tmp_path: Path, dtype: torch.dtype, value: float) -> None:
    tensor = torch.full((3, 8), 2.0)
    tensor[1, 2:5] = value
    stored = tensor.to(dtype)
    save_file({"w": stored}, tmp_path / "x.safetensors")
    (found,) = sample(tmp_path, read_shard(tmp_path, "x.safetensors").tensors)
    assert found.odd == int((~torch.isfinite(stored.to(torch.float64))).sum()) and found.bytes == stored.nbytes and not found.zero


def test_a_large_tensor_is_sampled_at_both_ends_and_between(tmp_path: Path) -> None:
    """The last element of a tensor is looked at, and no more is read than is said."""
    tensor = torch.ones(1 << 20, dtype=torch.bfloat16)
    tensor[-1] = float("nan")
    save_file({"w": tensor}, tmp_path / "x.safetensors")
    (found,) = sample(tmp_path, read_shard(tmp_path, "x.safetensors").tensors)
    assert found.odd == 1 and LEAST <= found.bytes <= MOST < tensor.nbytes


def test_zeros_are_told_once_for_alike_tensors(tmp_path: Path) -> None:
    config = '{"model_type": "none"}'
    (tmp_path / "config.json").write_text(config)
    write_shard(tmp_path / "model.safetensors", {f"layers.{i}.w.weight": ("F32", [8, 8]) for i in range(3)} | {"bias": ("F32", [8])})
    report = inspect(tmp_path, deep=True)
    assert ("D0214", "warn", "layers.*.w.weight") in told(report.findings) and len(told(report.findings)) == 2
    assert report.sample and (report.sample.tensors, report.sample.share) == (4, 1.0)


def test_nan_in_a_release_fails(tmp_path: Path) -> None:
    folder = copied(tmp_path / "llama")
    header = read_shard(folder, NAMES[0]).tensors
    name, place = next((name, one.start) for name, one in header.items() if one.dtype == "BF16")
    raw = bytearray((folder / NAMES[0]).read_bytes())
    raw[place : place + 2] = b"\xc0\x7f"
    (folder / NAMES[0]).write_bytes(raw)
    assert findings(folder) == [] and findings(folder, deep=True) == [("D0214", "fail", name)]
