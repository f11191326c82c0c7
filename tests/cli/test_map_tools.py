"""`day0 why`, `day0 bench` and `day0 target` from the command line."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml

from day0.engine.targets import find_target
from day0.spec.registry import kernels
from tests.cli.conftest import Done

Day0 = Callable[..., Done]


@pytest.mark.parametrize("site", ["experts", "ffn.experts", "layers.1.ffn.experts", "1.ffn.experts", "ffn.experts/decode"])
def test_why_answers_for_a_call_however_it_is_named(day0: Day0, mapped: Path, site: str) -> None:
    done = day0("why", site)
    assert done.code == 0
    assert "experts activation(silu) is composite" in done.out
    assert "reads plain weights, not fp8_block" in " ".join(done.out.split()), "the reason of the candidate that refused"
    assert "day0 new kernel experts_" in done.out, "the way out"
    assert ("prefill" in done.out) == ("/decode" not in site)


def test_why_names_every_candidate(day0: Day0, mapped: Path) -> None:
    done = day0("why", "linear")
    candidates = {name for name, impl in kernels().items() if impl.op == "linear"}
    assert candidates and all(name in done.out for name in candidates) and "reference" in done.out


def test_why_of_a_target_that_lacks_an_operator(day0: Day0, mapped: Path, tmp_path: Path) -> None:
    given = find_target("cpu").model_dump(mode="json", exclude_defaults=True)
    given |= {"name": "poor", "operators": {"topk": {"has": "none", "source": "this test"}}}
    (tmp_path / "poor.yaml").write_text(yaml.safe_dump(given))
    assert day0("map-ops", "--target", "poor.yaml", "--emulate").code == 0
    done = day0("why", "route/decode")
    said = " ".join(done.out.split())
    assert "host fallback" in said and "poor has no aten::topk" in said


def test_why_of_what_is_not_there(day0: Day0, mapped: Path) -> None:
    done = day0("why", "expert")
    assert done.code == 2 and done.error == "no call is named 'expert'" and "experts" in done.hint
    assert day0("why", "nothing like it").code == 2


def test_bench_times_what_is_right(day0: Day0) -> None:
    done = day0("bench", "rms_norm", "--dtype", "float32", "--sizes", "T=2,D=64", "--threads", torch.get_num_threads())
    assert done.code == 0
    assert "rms_norm_torch" in done.out and "reference" in done.out and "1.0×" in done.out
    assert "medians" in done.err


def test_bench_takes_the_sizes_of_the_map(day0: Day0, mapped: Path) -> None:
    done = day0("bench", "gated_activation", "--map")
    assert done.code == 0 and "F384" in done.out
    assert day0("bench", "delta_rule", "--map").error == "the map has no call of delta_rule"


@pytest.mark.parametrize(("words", "said"), [
    (["nope"], "no op named 'nope'"), (["linear", "--sizes", "T"], "sizes 'T' are not understood"),
    (["linear", "--sizes", "T=0"], "sizes 'T=0' are not understood"), (["linear", "--sizes", "Z=3"], "its cases have no axis Z"),
    (["linear", "--dtype", "fp4"], "cannot compute in 'fp4'"), (["linear", "--sizes", f"T={10**9}"], "are not understood"),
])  # fmt: skip
def test_bench_refuses(day0: Day0, words: list[str], said: str) -> None:
    done = day0("bench", *words)
    assert done.code == 2 and said in done.error


def test_a_manifest_of_this_machine_maps(day0: Day0, mapped: Path, tmp_path: Path) -> None:
    """Written here, it says what torch says, and the model maps on it as on the processor."""
    done = day0("target", "--machine", "cpu", "--out", "me.yaml", "--name", "me")
    assert done.code == 0
    found = find_target(str(tmp_path / "me.yaml"))
    assert (found.name, found.backend) == ("me", "cpu")
    assert found.registered and torch.__version__ in found.registered.source and "mm" in found.registered.direct
    assert found.types["float8_e4m3fn"].cast == "native" and found.libraries["torch_npu"].has == "none"
    assert found.figures["copy_gbs"] > 0
    report = day0("map-ops", "--target", "me.yaml", "--json").json
    assert (report["basis"], report["unverified"], report["verdict"]) == ("time", 0, "complete")
    assert report["seconds"]["decode"] > 0


def test_a_profile_is_not_the_machine_it_describes(day0: Day0) -> None:
    done = day0("target", "--machine", "h200_sxm")
    assert done.code == 2 and done.error == "h200_sxm is a profile, not what is here"


def test_targets_and_machines_by_name(day0: Day0, mapped: Path) -> None:
    assert day0("map-ops", "--target", "nonesuch").code == 2
    assert day0("map-ops", "--emulate").error == "--emulate needs a target with a manifest"
    done = day0("map-ops", "--target", "ascend")
    assert done.code == 1 and "backend npu: has no file" in done.out and "not verified" in done.out
    assert day0("map-ops", "--target", "cuda_sm90").code == 0
