"""Norms that store a gain where the family adds one, or the difference from one where it does not."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from day0.engine import norms
from day0.stages.inspect import inspect
from tests.cases.inspected import Inspected, Told, folder, write
from tests.zoo import checkpoint

__all__ = ["folder"]
CENTRED = r"(?<!linear_attn\.)norm\.weight$"  # of Qwen3-Next: the norm that is gated is no difference from one
LAST = r"^model\.norm\.weight$"
Change = Callable[[torch.Tensor], torch.Tensor]


def changed(folder: Path, name: str, pattern: str, change: Change) -> Path:
    """A copy whose tensors of some names are others."""
    shutil.copytree(checkpoint(name), folder)
    for file in folder.glob("model-*.safetensors"):
        tensors = {key: change(value) if re.search(pattern, key) else value for key, value in load_file(file).items()}
        save_file(tensors, file, metadata={"format": "pt"})
    return folder


def told(folder: Path) -> list[Told]:
    """What the command says beside prediction layers that the zoo leaves out; it is no reason to call a copy unsound."""
    inspected = Inspected(folder)
    assert inspected.code == 0
    return sorted(finding for finding in inspected.told if finding[0] != "D0304")


def later(value: torch.Tensor) -> torch.Tensor:
    return (value.float() + 1).to(value.dtype)


def earlier(value: torch.Tensor) -> torch.Tensor:
    return (value.float() - 1).to(value.dtype)


def test_the_means_are_those_that_torch_finds() -> None:
    report = inspect(checkpoint("qwen3_next"))
    stored = {key: value for file in checkpoint("qwen3_next").glob("model-*.safetensors") for key, value in load_file(file).items()}
    rows = {row.name: row for row in report.norms}
    assert {name: (row.formula, row.stored) for name, row in rows.items() if "mixer." not in name} == {
        "norm": ("1 + w", "about 0"), "residual.mixer_norm": ("1 + w", "about 0"), "residual.ffn_norm": ("1 + w", "about 0"),
    }  # fmt: skip
    assert (rows["mixer.o_norm"].formula, rows["mixer.o_norm"].stored) == ("w", "about 1")
    assert rows["residual.mixer_norm"].tensors == [f"model.layers.{i}.input_layernorm.weight" for i in (0, 2, 4)]
    for row in rows.values():
        assert row.means == pytest.approx([stored[name].double().mean().item() for name in row.tensors])
    assert "D0313" in report.checks and not any(finding.code == "D0313" for finding in report.findings)


def test_a_conversion_has_added_the_one(folder: Path) -> None:
    """mlx-vlm #2041, #2114: 8 of 11 conversions had it in their weights, and it was added again."""
    changed(folder, "qwen3_next", CENTRED, later)
    assert told(folder) == [("D0313", "warn", name) for name in ("norm", "residual.ffn_norm", "residual.mixer_norm")]


@pytest.mark.parametrize(("name", "change", "expected"), [
    ("qwen3_next", later, "around 0: the family multiplies by 1 + w"), ("llama", earlier, "around 1: the family multiplies by w"),
])  # fmt: skip
def test_the_last_norm_alone(folder: Path, name: str, change: Change, expected: str) -> None:
    found = next(finding for finding in inspect(changed(folder, name, LAST, change)).findings if finding.code == "D0313")
    mean = load_file(folder / "model-00002-of-00002.safetensors")["model.norm.weight"].double().mean().item()
    assert told(folder) == [("D0313", "warn", "norm")] and (found.expected, found.found) == (expected, f"mean {mean:.3g} in 1 tensor")


def test_norms_of_hyper_connections_hold_the_one(folder: Path) -> None:
    """The same release once more: these norms are inside another operator."""
    names = {subject for _, _, subject in told(changed(folder.with_name("drawn"), "qwen4_exp", "nothing", later))}
    assert {"residual.mixer_norm", "residual.ffn_norm", "collapse.norm", "embedding.key_norm"} <= names
    assert told(changed(folder, "qwen4_exp", r"(?<!linear_attn\.)norm(_\w+)?\.weight$", earlier)) == []


@pytest.mark.parametrize(("name", "pattern", "change"), [
    ("qwen3_next", r"(q|k)_norm\.weight$", lambda value: torch.ones_like(value)),
    ("llama", r"norm\.weight$", lambda value: value.abs() * 0.05),
    ("llama", r"norm\.weight$", torch.zeros_like),
    ("qwen3_next", CENTRED, torch.zeros_like),
    ("qwen3_next", CENTRED, lambda value: torch.full_like(value, torch.nan)),
])  # fmt: skip
def test_what_says_nothing(folder: Path, name: str, pattern: str, change: Change) -> None:
    """Sharp attention; small gains, which have no sign; zeros and NaN, which are told elsewhere, and only when they are looked for."""
    assert told(changed(folder, name, pattern, change)) == []


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_other_types(folder: Path, dtype: torch.dtype) -> None:
    changed(folder, "qwen3_next", r"norm\.weight$", lambda value: value.to(dtype))
    before, after = (inspect(place).norms for place in (checkpoint("qwen3_next"), folder))
    assert [(row.name, row.stored) for row in after] == [(row.name, row.stored) for row in before]
    for old, new in zip(before, after, strict=True):
        assert new.means == pytest.approx(old.means, abs=1e-3)


def test_no_more_than_three_of_a_kind_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, int]] = []
    right = norms.read
    monkeypatch.setattr(norms, "read", lambda where, header, out: seen.append((header.name, out.nbytes)) or right(where, header, out))
    report = inspect(checkpoint("gpt_oss"))
    assert len(seen) == sum(len(row.tensors) for row in report.norms) and all(len(row.tensors) <= 3 for row in report.norms)
    assert all("norm" in name and size <= norms.MOST for name, size in seen) and len(report.layers) > 3


def test_sparse_copies_and_configurations_have_none(folder: Path) -> None:
    write(folder, "qwen3_next")
    assert inspect(folder).norms == []
    for file in [*folder.glob("*.safetensors"), *folder.glob("*.index.json")]:
        file.unlink()
    alone = inspect(folder)
    assert alone.basis == "configuration" and alone.norms == [] and "D0313" not in alone.checks
