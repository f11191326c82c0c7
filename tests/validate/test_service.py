"""The rung of the service: what HTTP and company change is found, and nothing else is."""

from typing import Any

import pytest
import torch

from day0.serve.service import Service
from day0.spec.request import Sampling
from day0.stages import service as stage
from tests.mutation.fault import call
from tests.validate.planted import reports
from tests.validate.planted import validate as judge
from tests.zoo import checkpoint


def validate(monkeypatch: pytest.MonkeyPatch) -> Any:
    return judge(monkeypatch, checkpoint("qwen3_moe"), only=["service"])


def failed(report: Any) -> set[str]:
    return {finding.code for finding in report.findings if finding.status == "fail"}


def test_a_sound_service_says_what_the_engine_says(monkeypatch: pytest.MonkeyPatch) -> None:
    report = validate(monkeypatch)
    assert report.verdict == "pass" and [rung.name for rung in report.rungs] == ["service"]
    assert len(report.answers) == len(stage.LENGTHS) * (1 + stage.COPIES)
    assert {(row.tokens, row.given, row.failure) for row in report.answers} == {(stage.NEW, stage.NEW, "")}


def test_a_service_that_samples_as_nobody_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Service, "_sampling", lambda *_: Sampling(temperature=2.0, seed=1, logprobs=2))
    report = validate(monkeypatch)
    assert report.verdict == "fail" and "D0901" in failed(report)
    assert report.first_divergence.rung == "service" and "service" in report.first_divergence.line


def test_an_engine_that_depends_on_the_company(monkeypatch: pytest.MonkeyPatch) -> None:
    """Right for whoever asks alone."""

    def leak(function: Any) -> Any:
        def attend(*args: Any, **kwargs: Any) -> torch.Tensor:
            y = function(*args, **kwargs)
            segment = next(value for value in (*args, *kwargs.values()) if hasattr(value, "queries"))
            return y + y.roll(1, 0) if len(segment.queries) > 1 else y

        return attend

    call("paged_attention", leak)(monkeypatch)
    report = validate(monkeypatch)
    assert failed(report) == {"D0902"} and report.first_divergence.code == "D0902"


def test_what_cannot_be_served_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    before = reports(checkpoint("qwen3_moe"))
    monkeypatch.setattr(before[1], "verdict", "does not fit")
    report = validate(monkeypatch)
    assert report.verdict == "unknown" and any("does not fit" in finding.found for finding in report.findings)
