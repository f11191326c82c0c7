"""Every family of the test zoo has a true verdict, and faults in streams, recurrences and sparse choices are found where they are."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers")

from day0.community.decode import FORMULAS, independent
from day0.engine.loading import decoded
from day0.engine.release import Release
from day0.spec.registry import formats
from tests.validate.planted import Fault, exchanged, part, validate
from tests.zoo import checkpoint, names
from tests.zoo.kimi_k3 import checkpoint as kimi_k3

SHARED = Path(__file__).parents[2].parent / "shared" / "models" / "tiny-glm5next"
GLM5 = pytest.mark.skipif(not SHARED.is_dir(), reason="needs shared/models/tiny-glm5next")


def test_every_format_has_a_second_definition() -> None:
    assert set(FORMULAS) == set(formats().names())


@pytest.mark.parametrize("name", [name for name in names() if "-" in name and name.rpartition("-")[2] in FORMULAS])
def test_both_definitions_decode_alike(name: str) -> None:
    release = Release.open(checkpoint(name))
    packed = [stored for stored in release.checkpoint.stored.values() if stored.format == name.rpartition("-")[2]]
    for stored in packed[:4]:
        ours, other = decoded(release.folder, stored, torch.float32), independent(release.checkpoint, stored)
        assert other is not None and ours.shape == other[0].shape
        torch.testing.assert_close(ours, other[0], rtol=2**-22, atol=0)
    assert packed or name.endswith("fp8")


def test_without_a_reference_the_verdict_is_unknown_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    report = validate(monkeypatch, kimi_k3("kimi_k3"))
    assert (report.verdict, report.first_divergence) == ("unknown", None)
    assert [rung.verdict for rung in report.rungs] == ["pass", "pass", "not run", "not run"]
    unknown = {(finding.code, finding.subject) for finding in report.findings if finding.status == "unknown"}
    assert unknown == {("D0805", "layers"), ("D0805", "model")}
    assert validate(monkeypatch, kimi_k3("kimi_k3"), until="operators").verdict == "pass"


STREAMS: dict[str, tuple[Fault, tuple[int, str]]] = {
    "streams mixed by a matrix that is not doubly stochastic": (
        part(0, "residual", lambda p: replace(p, iterations=1)), (0, "residual")),
    "mixers of both sublayers exchanged": (exchanged("layers.0.residual.mixer_base", "layers.0.residual.ffn_base"), (0, "residual")),
    "eps of the recurrent output's norm": (
        part(0, "mixer", lambda m: replace(m, norm=replace(m.norm, eps=1e-2))), (0, "mixer")),
}  # fmt: skip


@GLM5
@pytest.mark.parametrize("fault", STREAMS)
def test_a_fault_in_streams_or_recurrence_is_found_where_it_is(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    plant, expected = STREAMS[fault]
    found = validate(monkeypatch, SHARED, plant, layers="0", until="layers", tokens=48).first_divergence
    assert found is not None and (found.rung, found.layer, found.part) == ("layers", *expected), found


@GLM5
def test_streams_that_are_right_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    report = validate(monkeypatch, SHARED, layers="0", until="layers", tokens=48)
    assert report.verdict == "pass" and report.layer_errors
