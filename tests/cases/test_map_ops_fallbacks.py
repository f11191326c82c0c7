"""What bring-up of new models ran into where something else ran than was thought: silent fallbacks, contracts of types, stand-ins."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from day0.engine.targets import find_target
from day0.ops.route import OP as ROUTE
from day0.spec.ops import Impl
from day0.spec.registry import kernels
from day0.stages.bench import arguments, bench
from day0.stages.fallbacks import slower, type_row
from day0.stages.machines import find_machine
from tests.cases.inspected import write
from tests.cli.conftest import Done, day0
from tests.engine.emulated import manifest, mapped
from tests.zoo import checkpoint

__all__ = ["day0"]


@pytest.fixture
def planned(day0: Callable[..., Done], tmp_path: Path) -> Path:
    """A mixture of experts after inspect and plan-memory."""
    assert day0("inspect", checkpoint("glm4_moe")).code == 0
    assert day0("plan-memory", "--context", "300", "--batch", "3").code == 0
    return tmp_path


def test_a_target_without_top_k_says_so_aloud(day0: Callable[..., Done], planned: Path) -> None:
    """17 tokens a second instead of 47, and the only hint was a line of debug (ggml-org/llama.cpp issue 13729).

    Calls and bytes are counted for each device, every fallback is a warning with its reason and its price, and --strict says no.
    """
    target = manifest(planned)
    done = day0("map-ops", "--target", target, "--json")
    report = done.json
    assert done.code == 0 and report["devices"].keys() == {"target", "host"}
    assert report["devices"]["host"]["calls"] == sum(site["status"] == "host fallback" for site in report["sites"]) > 0
    assert report["devices"]["target"]["decode"] > report["devices"]["host"]["decode"] > 0
    warning = next(line for line in done.err.splitlines() if line.startswith("warning: "))
    assert "route runs on the host" in warning and "of decode" in warning and "poor has no aten::topk" in warning
    strict = day0("map-ops", "--target", target, "--strict", "--json")
    assert strict.code == 1 and strict.json["verdict"] == "incomplete"
    assert any(line.startswith("route: host fallback") for line in strict.json["missing"])


def test_the_price_of_the_host_is_that_of_the_link() -> None:
    """Each byte that stays on the card at the card's bandwidth crosses the link to the host at the link's."""
    machine = replace(find_machine("h200_sxm"), host_link=64e9)
    assert slower("host fallback", 1.5, machine) == pytest.approx(1.5 * 4.8e12 / 64e9)
    assert slower("reference", 1.5, machine) == 1.5
    assert slower("host fallback", 1.5, replace(machine, host_link=None)) is None


def test_strict_passes_where_nothing_falls_back(day0: Callable[..., Done], tmp_path: Path) -> None:
    assert day0("inspect", checkpoint("llama")).code == 0
    assert day0("plan-memory", "--context", "300").code == 0
    assert day0("map-ops", "--strict").code == 0


def test_an_emulated_target_runs_and_answers(day0: Callable[..., Done], planned: Path) -> None:
    """The map is written, and `run` obeys it; without --emulate nothing is written."""
    target = manifest(planned)
    assert day0("map-ops", "--target", target).code == 0
    assert not list(planned.glob("reports/*/*/map-ops.yaml"))
    assert day0("map-ops", "--target", target, "--emulate").code == 0
    done = day0("run", "abc", "--raw", "--max-new", "3", "--json")
    assert done.code == 0 and len(done.json["answers"][0]["tokens"]) > 0, done.err
    assert day0("validate", "--layer", "1").code == 0
    manifest(planned, lacks=("topk", "mm"))
    refused = day0("run", "abc", "--raw", "--max-new", "3")
    assert refused.code == 2 and "poor has no aten::mm" in refused.error


def test_a_routing_kernel_that_hands_on_another_type_has_no_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a fallback the experts still expected the other backend's type of weights (NVIDIA/TensorRT-LLM pull request 17570).

    Here an operator fixes the types of its results, so that neighbours fit whoever runs: one that returns others does not pass.
    """

    def narrow(**given: Any) -> Any:
        weights_TK, experts_TK = ROUTE.reference(**given)
        return weights_TK.bfloat16(), experts_TK

    given = dict(kernels().items()) | {"route_narrow": Impl(op="route", provider="narrow", fn=narrow, refuses=lambda *_: None, status="native")}
    monkeypatch.setattr(type(kernels()), "items", lambda self: iter(given.items()))
    timings = {one.name: one for one in bench("route", "float32", [(("T", 3),)])}
    assert timings["route_narrow"].seconds is None
    assert "weights: bfloat16, not float32" in (timings["route_narrow"].wrong or "")
    assert timings["reference"].wrong is None and (timings["reference"].seconds or 0) > 0


def test_a_wrong_kernel_has_no_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No figure on a red gate, whatever the size that was asked for."""
    wrong = replace(kernels().get("rms_norm_torch"), fn=lambda x, weight_D, eps, plus_one=False: x * 1.01)
    given = dict(kernels().items()) | {"rms_norm_torch": wrong}
    monkeypatch.setattr(type(kernels()), "items", lambda self: iter(given.items()))
    timings = {one.name: one for one in bench("rms_norm", "float32", [])}
    assert timings["rms_norm_torch"].seconds is None and "of the budget" in (timings["rms_norm_torch"].wrong or "")


def test_types_that_a_target_only_stores() -> None:
    """E8M0 scales where nothing converts them: they stay bytes, and the map says who converts (sgl-project/sglang pull request 28025)."""
    target = find_target("cpu")
    line = target.types["float8_e8m0fnu"]
    without = target.model_copy(update={"types": {**target.types, "float8_e8m0fnu": line.model_copy(update={"cast": "none"})}})
    assert type_row("float8_e8m0fnu", "weights", "bfloat16", target).handling.startswith("kept as stored")
    assert type_row("float8_e8m0fnu", "weights", "bfloat16", without).handling.startswith("kept as bytes; the host converts")


def test_scales_without_a_cast_send_the_call_to_the_host(tmp_path: Path) -> None:
    report = mapped(checkpoint("qwen3_moe-mxfp8"), manifest(tmp_path, lacks=(), types=("float8_e8m0fnu",)))
    stored = {row.type for row in report.types if row.use == "weights"}
    reasons = {row.reason for row in report.fallbacks if row.status == "host fallback"}
    assert ("poor has no float8_e8m0fnu" in reasons) == ("float8_e8m0fnu" in stored)


@pytest.mark.parametrize(("target", "converts"), [("rocm_gfx942", True), ("rocm_gfx950", False), ("cuda_sm90", False), ("cpu", False)])
def test_the_other_flavour_of_8_bit_floats(target: str, converts: bool) -> None:
    """Byte 0x80 is -0 in e4m3fn and NaN in e4m3fnuz: where hardware has the other flavour, the conversion is listed."""
    handling = type_row("float8_e4m3fn", "weights", "bfloat16", find_target(target)).handling
    assert ("float8_e4m3fnuz, whose codes differ" in handling) == converts
    byte = torch.tensor([0x80, 0x08], dtype=torch.uint8)
    plain, other = byte.view(torch.float8_e4m3fn).float(), byte.view(torch.float8_e4m3fnuz).float()
    assert plain[0] == 0 and other[0].isnan() and plain[1] == 2 * other[1]


def test_what_a_stand_in_does_not_read_is_listed(day0: Callable[..., Done], tmp_path: Path) -> None:
    """A new model that is read as a near relative (vllm-project/vllm issue 17630): the relation and the rest are in the map."""
    folder = tmp_path / "new"

    def extend(tensors: dict[str, Any], config: dict[str, Any]) -> None:
        config |= {"architectures": ["NewMoeForCausalLM"], "attn_res_gate": True}
        tensors["model.layers.0.attn_res_gate.weight"] = ("BF16", [4])

    write(folder, "deepseek_v3", extend)
    assert day0("inspect", folder).code == 1, "an unread weight is no"
    assert day0("plan-memory", "--context", "300").code == 0
    report = day0("map-ops", "--json").json
    assert report["family"] == "deepseek_v3"
    assert report["uncovered"] == ["attn_res_gate", "model.layers.0.attn_res_gate.weight"]


def test_arguments_of_a_case_are_those_of_the_reference() -> None:
    made = arguments(ROUTE, next(iter(ROUTE.cases())), "float32")
    assert [*made][:3] == ["logits_TE", "top_k", "rule"]
