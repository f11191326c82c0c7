"""Every ratio stands beside what a harmless change of the reference gives, and is judged with it."""

from dataclasses import replace
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")

from torch.nn import functional

from day0.checks.d0601_operator_error import CHECK as OPERATOR
from day0.checks.d0702_layer_ratio import CHECK as LAYER
from day0.checks.d0802_logits_ratio import CHECK as LOGITS
from day0.community.null import Reordered
from day0.spec.evidence import Errors, Evidence, LayerEvidence, OperatorEvidence
from day0.spec.ops import Budget
from day0.spec.whole_evidence import ModelEvidence
from tests.validate.planted import validate
from tests.zoo import checkpoint

ERRORS = Errors(ours=0.01, reference=0.005, budget=0.002, ratio=3.0, row_ratio=3.0, elements=1 << 20)
WHERE: dict[str, Any] = dict(layer=3, part="ffn", dtype="bfloat16", errors=ERRORS)
EVIDENCE = [
    (LAYER, LayerEvidence(**WHERE, phase="prefill", tokens=64)),
    (LOGITS, ModelEvidence(**WHERE, forced=True, tokens=64, top1=1, reference_top1=1, astray=0, divergence=0, reference_divergence=0)),
    (OPERATOR, OperatorEvidence(**WHERE, op="linear", label="", phase="prefill", provider="torch", sizes="", exact=False)),
]  # fmt: skip


@pytest.mark.parametrize(("check", "evidence"), EVIDENCE, ids=["layer", "logits", "operator"])
def test_a_limit_is_never_nearer_to_the_null_than_by_a_third(check: Any, evidence: Evidence) -> None:
    errors = evidence.errors  # type: ignore[attr-defined]
    for null, fails in ((0.0, True), (1.0, True), (2.2, True), (2.4, False)):
        found = list(check.run(replace(evidence, errors=replace(errors, null=null, null_row=null))))  # type: ignore[type-var]
        assert bool(found) == fails
        assert all(f"null {null:.3g}" in one.expected for one in found)


@pytest.mark.parametrize("name", ["qwen3_moe", "deepseek_v32"])
def test_the_null_of_a_healthy_model_is_about_one(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    report = validate(monkeypatch, checkpoint(name), layers="all")
    assert report.verdict == "pass"
    for rows in (report.layer_errors, report.depths, report.logits):
        own = [row.errors.null for row in rows if row.dtype == "bfloat16"]  # type: ignore[attr-defined]
        assert own and all(0.5 < null < 1.3 for null in own)
        assert {row.errors.null for row in rows if row.dtype == "float32"} == {0.0}  # type: ignore[attr-defined]
    worst = max(row.errors.null for row in report.operators if row.dtype == "bfloat16")
    assert 0.5 < worst < 1.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sums_in_the_opposite_order_are_the_same_sums(dtype: torch.dtype) -> None:
    """Next to torch's own product in float64."""
    draw = torch.Generator().manual_seed(1)
    x, weight, bias = (torch.randn(size, generator=draw).to(dtype) for size in ((2, 33, 512), (64, 512), (64,)))
    right = functional.linear(x.double(), weight.double(), bias.double())
    plain = functional.linear(x, weight, bias)
    with Reordered():
        other, single = functional.linear(x, weight, bias), functional.linear(x[0, 0], weight, bias)
    limit = 2 * Budget(accumulations=512).relative(str(dtype).removeprefix("torch.")) * right.norm()
    assert (plain - right).norm() < limit and (other - right).norm() < limit
    assert other.shape == plain.shape and single.shape == bias.shape
    assert dtype != torch.float32 or not torch.equal(plain, other)
