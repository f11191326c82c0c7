"""The map: every call once, the first provider that accepts, reasons of those that did not, references last."""

from functools import cache
from typing import Any

import pytest

from day0.engine.release import Release
from day0.spec.errors import Day0Error
from day0.spec.machine import Machine
from day0.spec.ops import Impl, Site
from day0.spec.registry import kernels, ops, parts
from day0.spec.reports.inspect import InspectReport
from day0.spec.reports.map_ops import MapOpsReport
from day0.spec.workload import Workload
from day0.stages.inspect import inspect
from day0.stages.machines import find_machine
from day0.stages.map_ops import Chooser, map_ops
from tests.engine.opened import families_first
from tests.plans import quick_plan
from tests.zoo import checkpoint, names

PACKED = [name for name in names() if "-fp8" in name]


@cache
def inspected(name: str) -> InspectReport:
    return inspect(checkpoint(name))


def mapped(name: str, target: str = "cpu") -> MapOpsReport:
    machine = find_machine(target)
    return map_ops(inspected(name), quick_plan(inspected(name), machine, Workload(context=300, batch=3, chunk=200)), machine)


@pytest.mark.parametrize("name", families_first(names()))
@pytest.mark.parametrize("target", ["cpu", "a100_80", "h200_sxm", "b300_sxm", "mi300x"])
def test_every_call_of_every_family_has_an_implementation(name: str, target: str) -> None:
    report = mapped(name, target)
    assert (report.verdict, report.missing, report.unavailable) == ("complete", [], {})
    assert sum(report.summary.values()) == len(report.sites)
    keys = [(site.op, site.layer, site.place, site.label, site.phase) for site in report.sites]
    assert len(set(keys)) == len(keys)
    for site in report.sites:
        assert site.op in ops().names()
        assert site.provider in report.providers
        assert (site.kernel is None) == (site.provider == "reference")
        assert site.kernel is None or kernels().get(site.kernel).op == site.op
        assert (site.sizes["T"], site.sizes["S"]) == (3 if site.phase == "decode" else 200, 300)


@pytest.mark.parametrize("name", ["llama", "deepseek_v3", "deepseek_v3-fp8"])
def test_the_calls_are_those_of_the_parts(name: str) -> None:
    """Layer by layer, without the shortcut for layers that are alike."""
    model, report = Release.open(checkpoint(name)).model, mapped(name)
    expected = [
        (site.op, layer.index, place, site.label, phase)
        for layer in model.layers
        for place, part in layer.parts()
        for phase in ("prefill", "decode")
        for site in parts().get(part.kind).sites(part, model.hidden, phase)
    ]
    expected += [(site.op, None, "", site.label, phase) for phase in ("prefill", "decode") for site in model.end_sites(phase)]  # type: ignore[arg-type]
    assert [(site.op, site.layer, site.place, site.label, site.phase) for site in report.sites] == expected


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("target", ["cpu", "a100_80"])
def test_packed_weights_are_decoded_where_nobody_reads_them(name: str, target: str) -> None:
    sites = mapped(name, target).sites
    packed = [site for site in sites if site.format in ("fp8_block", "fp8")]
    assert {site.op for site in packed} >= {"linear", "experts"}
    for site in packed:
        if not site.decode:
            assert site.provider == "triton"  # reads them as they lie
            continue
        assert site.status in ("composite", "reference", "compiled-native")
        assert site.status == "reference" or any(site.format in refusal.reason for refusal in site.refusals)
    assert not any(site.decode for site in sites if site.format == "plain")
    assert {site.format for site in sites if site.op in ("rms_norm", "route", "embedding")} == {"plain"}


def test_the_router_computes_in_float32() -> None:
    types = {site.label: site.dtype for site in mapped("qwen3_moe").sites if site.place == "ffn"}
    assert (types["router"], types["experts"]) == ("float32", "bfloat16")


def test_references_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAY0_OPS", "reference")
    report = mapped("deepseek_v3-fp8")
    assert (report.forced, report.providers, report.verdict) == ("reference", ["reference"], "complete")
    assert {site.provider for site in report.sites} == {"reference"}
    assert {site.decode for site in report.sites} == {True, False}
    monkeypatch.setenv("DAY0_OPS", "fastest")
    with pytest.raises(Day0Error, match="DAY0_OPS=fastest is not understood"):
        mapped("llama")


def test_a_machine_without_a_backend_is_not_complete() -> None:
    report = mapped("llama", "ascend_910b")
    assert report.verdict == "incomplete"
    assert report.missing == ["backend npu: has no file in day0/backends/"]


def impl(provider: str, reasons: dict[str, str] | None = None, op: str = "linear") -> Impl:
    """An implementation that refuses formats with a reason and accepts the others."""
    return Impl(op=op, provider=provider, fn=print, refuses=lambda site, _: (reasons or {}).get(site.format), status="fused")


def chooser(*offers: tuple[str, Impl]) -> Chooser:
    machine = Machine(name="t", backend="cuda", card=find_machine("h200_sxm").card)
    made = Chooser(machine)
    made.offers = {"linear": list(offers)}
    return made


def linear(form: str) -> Site:
    return Site(op="linear", label="q", phase="decode", sizes={"O": 8, "I": 8, "T": 1}, format=form)


CHOICES: list[tuple[str, list[Impl], tuple[Any, ...]]] = [
    ("plain", [impl("triton"), impl("torch")], ("triton", "fused", False, ())),
    ("plain", [impl("triton", {"plain": "too wide"}), impl("torch")], ("torch", "fused", False, (("triton", "too wide"),))),
    ("fp8_block", [impl("triton"), impl("torch")], ("triton", "fused", False, ())),
    (
        "fp8_block", [impl("triton", {"fp8_block": "no fp8"}), impl("torch", {"fp8_block": "plain only"})],
        ("triton", "composite", True, (("triton", "no fp8"), ("torch", "plain only"))),
    ),
    (
        "fp8_block", [impl("triton", {"fp8_block": "no", "plain": "no"}), impl("torch", {"fp8_block": "plain only"})],
        ("torch", "composite", True, (("triton", "no"), ("torch", "plain only"))),
    ),
    ("fp8_block", [impl("torch", {"fp8_block": "a", "plain": "b"})], ("reference", "reference", True, (("torch", "a"), ("torch", "b")))),
    ("plain", [], ("reference", "reference", False, ())),
    ("fp8_block+plain", [impl("torch", {"fp8_block+plain": "mixed"})], ("torch", "composite", True, (("torch", "mixed"),))),
]  # fmt: skip


@pytest.mark.parametrize(("form", "offers", "expected"), CHOICES)
def test_who_is_chosen(form: str, offers: list[Impl], expected: tuple[Any, ...]) -> None:
    choice = chooser(*((f"linear_{offer.provider}", offer) for offer in offers)).choose(linear(form))
    assert (choice.provider, choice.status, choice.decode, choice.refusals) == expected
    assert choice.kernel == (None if choice.provider == "reference" else f"linear_{choice.provider}")


def test_an_operator_that_nobody_defines_is_missing() -> None:
    site = Site(op="nonesuch", label="x", phase="decode", sizes={})
    assert chooser().choose(site).status == "missing"


def test_providers_are_asked_in_the_order_of_the_backend() -> None:
    offers = Chooser(find_machine("h200_sxm")).offers
    order = ["triton", "torch"]
    for op, candidates in offers.items():
        ranks = [order.index(offer.provider) for _, offer in candidates]
        assert ranks == sorted(ranks), op
