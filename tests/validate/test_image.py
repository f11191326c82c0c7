"""The rung of the model with an image: towers that are right pass, and one that is wrong is found in its part."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("transformers")
pytest.importorskip("PIL")

from day0.engine.release import Release
from day0.spec.encoder import Encoder
from tests.validate.planted import validate
from tests.vision.zoo import checkpoint

MODEL: dict[str, Any] = dict(only=["model"], vision=True, tokens=24)


@pytest.mark.parametrize("name", ["glm5_next", "qwen3_vl_moe", "kimi_k25"])
def test_a_tower_that_is_right(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    report = validate(monkeypatch, checkpoint(name), **MODEL)
    assert report.verdict == "pass", report.first_divergence
    assert [(row.dtype, row.where) for row in report.towers] == [("float32", ""), ("bfloat16", "")]
    assert {(row.part, row.dtype) for row in report.logits} >= {("logits with an image", "float32"), ("logits with an image", "bfloat16")}
    assert all(row.errors.ours < 1e-4 for row in report.logits if row.dtype == "float32" and row.part != "logits")
    assert {"D0807", "D0801"} <= {finding.code for finding in report.findings if finding.status == "pass"}


def test_what_cannot_be_compared_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of images go another way into this class; text alone is compared, and that is told."""
    report = validate(monkeypatch, checkpoint("step3p7"), **MODEL)
    assert report.verdict == "pass" and not report.towers
    assert any(finding.code == "D0805" and "a prompt with an image" in finding.found for finding in report.findings)


def test_a_plan_without_the_tower_compares_text_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    report = validate(monkeypatch, checkpoint("qwen3_vl_moe"), only=["model"], dtype="float32", tokens=24)
    assert report.verdict == "pass" and not report.towers and {row.part for row in report.logits} == {"logits"}


def layers(index: int, place: str, change: Callable[[Any], Any]) -> Callable[[Encoder], Encoder]:
    """Another part of one layer of a tower."""

    def changed(encoder: Encoder) -> Encoder:
        made = list(encoder.layers)
        made[index] = replace(made[index], **{place: change(getattr(made[index], place))})
        return replace(encoder, layers=tuple(made))

    return changed


FAULTS: dict[str, tuple[str, Callable[[Encoder], Encoder], str]] = {
    "rotation": ("glm5_next", layers(1, "mixer", lambda m: replace(m, rope=replace(m.rope, theta=m.rope.theta * 1.5))), "layer 1 mixer"),
    "activation": ("qwen3_vl_moe", layers(2, "ffn", lambda f: replace(f, activation=replace(f.activation, kind="relu2"))), "layer 2 ffn"),
    "positions": (
        "kimi_k25", lambda e: replace(e, patches=replace(e.patches, grid=replace(e.patches.grid, corners=not e.patches.grid.corners))), "patches"),
    "order of squares": ("qwen3_vl_moe", lambda e: replace(e, connector=replace(e.connector, ordered=not e.connector.ordered)), "connector"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_a_tower_is_found_in_its_part(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    kind, change, where = FAULTS[name]

    def plant(release: Release) -> None:
        assert release.model.encoder is not None
        release.model = replace(release.model, encoder=change(release.model.encoder))

    report = validate(monkeypatch, checkpoint(kind), plant, dtype="float32", **MODEL)
    first = report.first_divergence
    assert report.verdict == "fail" and first is not None
    assert (first.rung, first.part, first.code) == ("model", "tower", "D0807")
    assert report.towers[0].where == where and where in first.line, (first.line, report.towers)
