"""Two references of a layer that disagree are said to, and which of them runs here; in the DeepSeek-V3.2 of the zoo, by its indexer."""

from copy import copy
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("transformers")

import transformers.models.deepseek_v32.modeling_deepseek_v32 as modeling

from day0.community import bench
from day0.engine import definition
from day0.engine.definition import Definition
from day0.spec.reports.validate import ValidateReport
from tests.validate.planted import part, validate, wrong_kernel
from tests.zoo import checkpoint

OTHER_PAIRS = part(1, "mixer", lambda m: replace(m, indexer=replace(m.indexer, interleaved=not m.indexer.interleaved)))
UNBIASED = part(1, "ffn", lambda f: replace(f, router=replace(f.router, bias=False)))


def compared(monkeypatch: pytest.MonkeyPatch, fault: Any = None, name: str = "deepseek_v32") -> ValidateReport:
    return validate(monkeypatch, checkpoint(name), fault, layers="1", only=["layers"], dtype="float32")


def said(report: ValidateReport) -> dict[str, str]:
    return {one.subject: one.found for one in report.findings if (one.code, one.status) == ("D0712", "fail")}


def others(report: ValidateReport) -> set[str]:
    return {one.code for one in report.findings if one.status == "fail"} - {"D0712"}


def test_a_reference_that_is_wrong_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """vllm #28968, #34353: the indexer of the code that all were compared with turned neighbouring pairs."""
    monkeypatch.setattr(modeling, "apply_rotary_pos_emb", modeling.apply_rotary_pos_emb_interleave)
    report = compared(monkeypatch)
    found = said(report)
    assert report.verdict == "fail" and list(found) == ["layer 1 reads"] and others(report) == {"D0708"}
    assert "agrees with our definition (" in found["layer 1 reads"]
    first = report.first_divergence
    assert first is not None and first.code == "D0708" and found["layer 1 reads"] in first.references


def test_our_definition_is_wrong_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs here is right: nothing but this comparison looks at the definition."""

    class Wrong(Definition):
        def __init__(self, probe: Any) -> None:
            super().__init__(probe)
            self.release = copy(probe.release)
            OTHER_PAIRS(self.release)

    monkeypatch.setattr(bench, "Definition", Wrong)
    report = compared(monkeypatch)
    found = said(report)
    assert report.verdict == "fail" and list(found) == ["layer 1 reads"] and others(report) == set()
    assert "agrees with the reference (" in found["layer 1 reads"]
    assert report.first_divergence is not None and report.first_divergence.code == "D0712"


@pytest.mark.parametrize(("fault", "subjects"), [(OTHER_PAIRS, {"layer 1 reads"}), (UNBIASED, {"layer 1 router"})])
def test_what_the_release_is_taken_for_is_part_of_the_definition(monkeypatch: pytest.MonkeyPatch, fault: Any, subjects: set[str]) -> None:
    found = said(compared(monkeypatch, fault))
    assert set(found) == subjects
    assert all("agrees with our definition" in text for text in found.values())


def test_a_kernel_that_is_wrong_is_no_disagreement_of_references(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong_kernel(monkeypatch, "experts", 1.01)
    report = compared(monkeypatch)
    assert others(report) == {"D0701"} and said(report) == {}
    assert report.first_divergence is not None and report.first_divergence.references == ""


def test_no_kernel_takes_part_in_the_definition() -> None:
    from tests.validate.planted import reports

    _, _, mapped = reports(checkpoint("qwen3_moe-int4"), "float32")
    assert any(row.kernel for row in mapped.sites)
    rows = definition.by_reference(mapped).sites
    assert {(row.provider, row.kernel) for row in rows} == {("reference", None)}
    assert all(row.decode == (row.format != "plain") for row in rows) and any(row.decode for row in rows)


@pytest.mark.parametrize("name", ["deepseek_v32", "qwen3_moe-int4", "deepseek_v4"])
def test_sound_references_agree(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    report = compared(monkeypatch, name=name)
    assert report.verdict == "pass" and any((one.code, one.status) == ("D0712", "pass") for one in report.findings)
