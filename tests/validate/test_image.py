"""The rung of the model with an image: towers that are right pass. Wrong ones are in tests/mutation."""

from typing import Any

import pytest

pytest.importorskip("transformers")
pytest.importorskip("PIL")

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
