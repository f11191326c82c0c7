"""What bring-up of new models ran into where a target has no kernel: the table of candidates, the missing cell, the price of a way out."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from day0.engine.compositions import compositions, way_out
from day0.engine.targets import find_target
from day0.parts.moe_ffn import Router
from day0.spec.activation import Activation
from day0.spec.ops import Impl, Site
from day0.spec.registry import kernels, ops
from day0.spec.reports.map_ops import MapOpsReport
from day0.spec.workload import Workload
from day0.stages.choose import Chooser
from day0.stages.fallbacks import type_rows
from day0.stages.inspect import inspect
from day0.stages.machines import find_machine
from day0.stages.map_ops import map_ops
from day0.stages.reopen import reopen
from tests.engine.emulated import manifest
from tests.plans import quick_plan
from tests.zoo import checkpoint

Refuses = Callable[[Site, Any], str | None]


def offered(op: str, target: str, **refusals: Refuses) -> Chooser:
    """A chooser of a target to which nothing is offered but these candidates."""
    chooser = Chooser(find_machine("cpu"), find_target(target))
    made = [(name, Impl(op=op, provider=name, fn=print, refuses=refuses, status="native")) for name, refuses in refusals.items()]
    chooser.offers = {op: made}
    return chooser


def mapped(name: str, target: str | None = None, machine: str = "cpu", **load: Any) -> MapOpsReport:
    found, here = inspect(checkpoint(name)), find_machine(machine)
    workload = Workload(**{"context": 300, "batch": 3, "chunk": 200, "dtype": "bfloat16", **load})
    return map_ops(found, quick_plan(found, here, workload), here, find_target(target) if target else None)


def test_sparse_attention_without_a_kernel_for_the_architecture() -> None:
    """Sparse latent attention on sm_121: one kernel is for sm_90 and sm_100, one is dense, one needs more shared memory than there is.

    vllm-project/vllm issues 45317 and 30214, sgl-project/sglang issue 40286: no attention backend after minutes of loading.
    """
    chooser = offered(
        "sparse_latent_attention", "cuda_sm120",
        a=lambda site, machine: None if machine.card.arch in ("sm_90", "sm_100") else f"built for sm_90 and sm_100, not {machine.card.arch}",
        b=lambda site, machine: "reads all entries, not a choice of them" if site.op.startswith("sparse") else None,
        c=lambda site, machine: "needs 160 KiB of shared memory" if machine.card.shared_memory < 160 << 10 else None,
    )  # fmt: skip
    sizes = {"T": 8, "H": 16, "C": 512, "R": 64, "K": 2048, "S": 4096}
    site = Site(op="sparse_latent_attention", label="attention", phase="decode", sizes=sizes)
    choice = chooser.choose(site)
    assert dict(choice.refusals) == {
        "a": "built for sm_90 and sm_100, not sm_120", "b": "reads all entries, not a choice of them", "c": "needs 160 KiB of shared memory",
    }  # fmt: skip
    assert (choice.provider, choice.status) == ("reference", "reference")
    hopper = offered("sparse_latent_attention", "cuda_sm90", c=lambda site, machine: None if machine.card.shared_memory >= 160 << 10 else "no")
    assert hopper.choose(site).provider == "c"


def test_the_fallback_of_sparse_attention_has_a_price_and_a_way_out() -> None:
    """Where torch's kernels are not used: the share of decode, and what would make the missing kernel."""
    report = mapped("deepseek_v32", "cuda_sm120")
    assert {kernel.library for kernel in mapped_as_reference("deepseek_v32", "cuda_sm90").vendors} == {"FlashMLA", "DeepGEMM"}
    fell = {row.op: row for row in mapped_as_reference("deepseek_v32", "cuda_sm120").fallbacks}
    row = fell["sparse_latent_attention"]
    assert row.instead == "latent_attention gives the same while a sequence holds no more than 12 tokens" and (row.slower or 0) >= 1
    assert row.status == "reference" and 0 < row.decode < 1 and row.remedy == "day0 new kernel sparse_latent_attention_torch"
    assert "sparse_latent_attention" not in {row.op for row in report.fallbacks}


def mapped_as_reference(name: str, target: str) -> MapOpsReport:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAY0_OPS", "reference")
        return mapped(name, target)


@pytest.mark.parametrize(("target", "matrix", "handling", "state"), [
    ("cuda_sm80", "none", "converted to bfloat16 when it is used, by bit arithmetic", "not available here: bfloat16 instead"),
    ("cuda_sm89", "native", "converted to bfloat16 when it is used", "kept so; kernels read it"),
    ("cuda_sm90", "native", "converted to bfloat16 when it is used", "kept so; kernels read it"),
])  # fmt: skip
def test_8_bit_floats_below_sm_89(target: str, matrix: str, handling: str, state: str) -> None:
    """Weights are decoded, state is kept wide, and what that takes goes into the plan (kvcache-ai/ktransformers issue 1978)."""
    plan = quick_plan(inspect(checkpoint("deepseek_v3-fp8")), find_machine("a100_80"), Workload(context=4096, batch=4, kv_dtype="fp8"))
    release = reopen(inspect(checkpoint("deepseek_v3-fp8")))
    rows = {(row.type, row.use): row for row in type_rows(release, plan, find_target(target))}
    weights, kept = rows["float8_e4m3fn", "weights"], rows["float8_e4m3fn", "state"]
    assert weights.matrix == matrix and weights.handling.endswith(handling)
    assert kept.handling.startswith(state)
    assert ("plan again with --kv-dtype bfloat16" in kept.handling) == (matrix == "none")


def test_an_architecture_between_two_manifests_takes_the_older() -> None:
    """sm_86 has no 8-bit products either."""
    machine = find_machine("a100_80")
    card = replace(machine.card, arch="sm_86")
    assert Chooser(replace(machine, card=card)).target.name == "cuda_sm80"


def test_a_scheme_that_experts_have_and_linear_maps_have_not() -> None:
    """4-bit weights in groups: kernels for experts, none for linear maps (vllm-project/vllm-ascend issue 7076).

    The missing cell is named (format, operator, target), with the layers that need it, and what keeping them decoded would take.
    """
    report, release = mapped("deepseek_v3-int4"), reopen(inspect(checkpoint("deepseek_v3-int4")))
    int4 = next(site.format for site in report.sites if site.op == "experts")
    assert int4.startswith("int4")
    only_experts = offered("experts", "ascend", vendor=lambda site, machine: None)
    no_linear = offered("linear", "ascend", vendor=lambda site, _: None if site.format == "plain" else f"has no {site.format} for linear maps")
    bank = Site(op="experts", label="experts", phase="decode", sizes={"T": 1}, format=int4, options={"activation": Activation(kind="silu")})
    assert (only_experts.choose(bank).provider, only_experts.choose(bank).decode) == ("vendor", False)
    dense = Site(op="linear", label="q_a", phase="decode", sizes={"T": 1, "O": 8, "I": 8}, format=int4)
    choice = no_linear.choose(dense)
    assert (choice.decode, choice.refusals) == (True, (("vendor", f"has no {int4} for linear maps"),))
    rows = [row for row in report.fallbacks if row.op == "experts"]
    expected = [layer.index for layer in release.model.layers if hasattr(layer.ffn, "experts")]
    assert [row.layers for row in rows] == [expected] and rows[0].formats == [int4]
    bits = 16 - 8 * sum(part.bytes for part in bank_parts(release, expected[0])) / bank_elements(release, expected[0])
    assert rows[0].unpacked == pytest.approx(len(expected) * bank_elements(release, expected[0]) * bits / 8, rel=1e-6)


def bank_parts(release: Any, layer: int) -> list[Any]:
    weights = release.layer(layer)
    return [stored for name, located in weights.items() if located.spec.role == "expert" for _, stored in located.pieces]


def bank_elements(release: Any, layer: int) -> int:
    return sum(located.spec.count for located in release.layer(layer).values() if located.spec.role == "expert")


@pytest.mark.parametrize(("name", "rule"), [("deepseek_v3", "sigmoid"), ("qwen3_moe", "softmax"), ("deepseek_v4", "sqrt_softplus")])
def test_routing_rules_are_calls_of_their_own(name: str, rule: str) -> None:
    """An allow-list by routing method lags behind new models (vllm-project/vllm pull request 56773)."""
    variants = {site.variant for site in mapped(name).sites if site.op == "route"}
    assert variants and all(variant.startswith(f"rule({rule}") for variant in variants)


def test_a_target_that_knows_softmax_alone() -> None:
    chooser = offered("route", "cuda_sm90", fast=lambda site, machine: None if site.options["rule"].score == "softmax" else "knows softmax")
    rules = (Router(score="softmax"), Router(score="sigmoid", bias=True), Router(score="sqrt_softplus"))
    sites = [Site(op="route", label="route", phase="decode", sizes={"T": 1, "E": 8, "K": 2}, options={"rule": rule}) for rule in rules]
    assert [chooser.choose(site).provider for site in sites] == ["fast", "reference", "reference"]


def test_a_rule_that_a_target_lacks_is_said_in_words_that_it_has(tmp_path: Path) -> None:
    """The square root of a softplus is no reason for a host: it is made of what every target has."""
    poor = find_target(manifest(tmp_path, lacks=("softplus",)))
    machine, found = find_machine("cpu"), inspect(checkpoint("deepseek_v4"))
    load = Workload(context=300, batch=3, chunk=200, dtype="bfloat16")
    rows = [row for row in map_ops(found, quick_plan(found, machine, load), machine, poor).fallbacks if row.op == "route"]
    assert [(row.status, row.reason) for row in rows] == [("host fallback", "poor has no aten::softplus")]
    assert rows[0].composed == [f"aten::softplus can be composed from clamp_min, abs, neg, exp, log1p, add: {compositions()['softplus']['by']}"]
    without = find_target(manifest(tmp_path, lacks=("softplus", "log1p")))
    assert way_out("softplus", without) == ""


def test_an_activation_with_a_clamp_is_not_the_plain_one() -> None:
    """gpt-oss clamps its gates: the kernel for plain silu says that it does not (ROCm: vllm-project/vllm pull request 39436)."""
    sites = [site for site in mapped("gpt_oss").sites if site.op == "experts"]
    assert {site.provider for site in sites} == {"reference"}
    assert all("limit" in site.variant for site in sites)
    assert {refusal.reason for site in sites for refusal in site.refusals} == {
        "knows silu with a gate, without clamps or offsets", "reads packed weights, not plain",
    }  # fmt: skip


def test_every_operator_of_the_map_can_be_drafted() -> None:
    """The command that a fallback names exists for it."""
    remedies = {row.remedy for row in mapped_as_reference("qwen3_next", "cpu").fallbacks}
    assert remedies and all(remedy.split()[-1].rpartition("_")[0] in ops().names() for remedy in remedies)
    assert kernels().names()
