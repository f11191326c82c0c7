"""Kernels in C: every layout of the formats, both sets of instructions, how the library is built, and that the map says what runs."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from inspect import getclosurevars
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from day0.engine.arguments import phases, site, widened
from day0.engine.bind import Bound
from day0.engine.gate import judge
from day0.engine.packed import Workspace
from day0.engine.score import score
from day0.engine.watch import BETWEEN, Emulation
from day0.kernels.c import build
from day0.kernels.c.weights import times
from day0.kernels.c.worth import LEAST, too_short, too_small
from day0.spec.cases import PACKED, Draw
from day0.spec.ops import Site
from day0.spec.packed import Packed
from day0.spec.registry import kernels, ops
from tests.engine import opened
from tests.engine.emulated import PROMPTS, manifest, mapped, start
from tests.zoo import checkpoint

HERE = build.lacking(opened.processor())
pytestmark = pytest.mark.skipif(HERE is not None, reason=f"kernels in C: {HERE}")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def anew() -> Iterator[None]:
    """A library of its own."""
    for cached in (build.built, build.library):
        cached.cache_clear()
    yield
    for cached in (build.built, build.library):
        cached.cache_clear()


def close(x: Tensor, weight: Packed) -> bool:
    """Whether a product is what the decoded weight gives in float64, NaN where it has NaN."""
    right = x.double() @ weight.decode(torch.empty(weight.shape, dtype=torch.float64)).T
    found, broken = times(x, weight).double(), right.isnan()
    scale = right[~broken].square().mean().sqrt()
    error = (found - right)[~broken].square().mean().sqrt() / scale
    return torch.equal(found.isnan(), broken) and bool(error < (2e-6 if weight.dtype == torch.float32 or len(x) <= 16 else 4e-3))


def drawn(form: str, *shape: int, dtype: str = "float32") -> Packed:
    return Draw(f"{form} {shape}", dtype).packed(form, *shape)


@pytest.mark.parametrize("form", PACKED)
@pytest.mark.parametrize("tokens", [1, 2, 5, 40])
def test_products(form: str, tokens: int) -> None:
    """Widths that no vector divides, that one stretch of columns does not hold, and rows that no tile divides."""
    for rows, columns in ((1, 2), (7, 30), (70, 96), (6, 4130)):
        for dtype in ("float32", "bfloat16"):
            assert close(torch.randn(tokens, columns).bfloat16().float(), drawn(form, rows, columns, dtype=dtype)), (rows, columns, dtype)


@pytest.mark.parametrize("form", PACKED)
@pytest.mark.parametrize("tokens", [1, 40])
def test_weights_that_lie_turned(form: str, tokens: int) -> None:
    assert close(torch.randn(tokens, 70), replace(drawn(form, 70, 96), shape=(96, 70), turned=True))


@pytest.mark.parametrize("form", PACKED)
@pytest.mark.parametrize("tokens", [1, 40])
def test_some_rows_of_a_weight(form: str, tokens: int) -> None:
    weight, x = drawn(form, 72, 96), torch.randn(tokens, 96)
    assert all(close(x, weight.rows(*some)) for some in ((0, 32), (8, 40), (40, 72)))


def integers(group: int, **more: Tensor) -> Packed:
    """4-bit integers [24, 120] with scales for groups of so many inputs."""
    plain = drawn("int4", 24, 120)
    scale = (torch.rand(24, -(-120 // group)) / 40).half()
    return replace(plain, parts={**plain.parts, "scale": scale, **more}, block=(1, group))


@pytest.mark.parametrize("group", [16, 20, 32, 48, 120])
@pytest.mark.parametrize("tokens", [1, 40])
def test_groups_zeros_and_orders(group: int, tokens: int) -> None:
    """Zeros of eight rows a word, groups that no vector divides, inputs whose groups are scattered, or said not to be."""
    x, groups = torch.randn(tokens, 120), -(-120 // group)
    zeros = torch.randint(-(2**31), 2**31, (3, groups)).int()
    scattered, none = torch.randint(groups, (120,)), torch.full((120,), -1)
    for more in ({}, {"zeros": zeros}, {"group_of": scattered}, {"group_of": none}, {"zeros": zeros, "group_of": scattered.int()}):
        assert close(x, integers(group, **more)), more.keys()


def test_one_scale_for_a_weight() -> None:
    for scale in (torch.tensor(0.25), torch.tensor([[0.25]]), torch.rand(70), torch.rand(70, 1).bfloat16()):
        plain = drawn("fp8", 70, 96)
        assert close(torch.randn(3, 96), replace(plain, parts={**plain.parts, "scale": scale}))
    parts = drawn("nvfp4", 70, 96).parts
    divided = {"data": parts["data"], "scale": parts["scale"], "divisor": torch.tensor([3.0])}
    assert close(torch.randn(3, 96), replace(drawn("nvfp4", 70, 96), parts=divided))


@pytest.mark.parametrize(("form", "part", "byte"), [
    ("mxfp4", "scale", 255), ("mxfp8", "data", 127), ("fp8_block", "data", 255), ("nvfp4", "scale", 127),
])  # fmt: skip
def test_what_is_nan_stays_nan(form: str, part: str, byte: int) -> None:
    weight = drawn(form, 70, 96)
    weight.parts[part].view(torch.uint8)[9, 1] = byte
    assert close(torch.randn(2, 96), weight) and times(torch.randn(2, 96), weight).isnan().any()


@pytest.mark.parametrize("name", ["experts_c", "linear_c", "paged_attention_c"])
def test_without_the_widest_instructions(name: str, anew: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The half of the sources that a processor without AVX-512 compiles."""
    monkeypatch.setattr(build, "SETS", build.SETS[1:])
    impl, op, seen = kernels().get(name), ops().get(kernels().get(name).op), 0
    for case in op.cases():
        made = case.make("float32")
        if any(impl.refuses(site(op, made, "float32", phase), opened.processor()) is None for phase in phases(made)):
            seen += 1
            assert judge(op, (impl.fn(**made),), (op.reference(**widened(made)),)) is None, case.name
    assert seen


def test_who_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = opened.processor()
    assert "is compiled on the processor that runs it" in str(build.lacking(replace(machine, declared=True)))
    monkeypatch.setattr(build, "cpuinfo", lambda: frozenset({"sse4_2"}))
    assert build.lacking(machine) == "the processor has no AVX2"
    monkeypatch.setattr(build.platform, "machine", lambda: "aarch64")
    assert "not Linux on aarch64" in str(build.lacking(machine))


def test_what_is_not_worth_compiling() -> None:
    """One number for a sublayer, one for a step; where neither is known everything is."""
    linear = Site(op="linear", label="q", phase="decode", sizes={"T": 1, "O": 8, "I": 8}, format="mxfp4", options={"packed": LEAST - 1})
    assert "not worth compiling" in str(too_small(linear)) and too_small(replace(linear, options={"packed": LEAST})) is None
    sizes = {"T": 1, "S": 1024, "H": 32, "N": 8, "Q": 128, "V": 128}
    attention = Site(op="paged_attention", label="attention", phase="decode", sizes=sizes)
    assert "not worth compiling" in str(too_short(attention)) and too_short(replace(attention, sizes={**sizes, "T": 2})) is None
    assert kernels().get("linear_c").refuses(replace(linear, format="awq"), None) == "reads packed weights, not awq"


def compiled(environment: dict[str, str]) -> "subprocess.Popen[str]":
    """A process that has the library compiled and says where, or why not; it loads it, too."""
    code = "from day0.kernels.c import build; print(*build.built(build.compiler())); build.library()"
    given = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environment}
    return subprocess.Popen([sys.executable, "-c", code], env=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_two_processes_compile_at_once(tmp_path: Path) -> None:
    """One library is left, and nothing else; what an interrupted compilation left behind does not matter."""
    (tmp_path / "day0" / "compiling-dead").mkdir(parents=True)
    (tmp_path / "day0" / "compiling-dead" / "kernels.so").write_bytes(b"half")
    pair = [compiled({"XDG_CACHE_HOME": str(tmp_path)}) for _ in range(2)]
    told = [process.communicate() for process in pair]
    assert [process.returncode for process in pair] == [0, 0], told
    (library,) = (tmp_path / "day0").glob("*.so")
    assert {out.split()[0] for out, _ in told} == {str(library)}
    assert {path.name for path in (tmp_path / "day0").iterdir()} == {library.name, "compiling-dead"}


def test_nowhere_to_keep_it(tmp_path: Path) -> None:
    """A cache folder that cannot be made: a folder of the process, gone with it."""
    (tmp_path / "file").write_text("")
    process = compiled({"XDG_CACHE_HOME": str(tmp_path / "file")})
    out, error = process.communicate()
    assert process.returncode == 0, error
    assert out.split()[0].startswith("/tmp/day0-") and not Path(out.split()[0]).exists()


@pytest.mark.parametrize(("script", "said"), [("exit 1", "failed"), ("echo 'x.c:1: error: no such thing' >&2; exit 1", "error: no such thing")])
def test_a_compiler_that_fails(tmp_path: Path, script: str, said: str, anew: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Why is a refusal on the map."""
    broken = tmp_path / "cc"
    broken.write_text(f"#!/bin/sh\n{script}\n")
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CC", str(broken))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert said in str(build.lacking(opened.processor()))


def test_without_a_compiler(anew: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    assert "no C compiler" in str(build.lacking(opened.processor()))


@pytest.fixture
def for_all(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The zoo is too small for a compiler; here it is not."""
    opened.planned.cache_clear()
    monkeypatch.setattr("day0.kernels.c.worth.LEAST", 0)
    yield
    opened.planned.cache_clear()


@pytest.mark.parametrize("name", ["qwen3_moe-mxfp4", "deepseek_v3-fp8"])
def test_the_map_is_what_runs(name: str, for_all: None) -> None:
    """Nothing is decoded before a call, and the engine computes what it computes with decoded weights."""
    folder = checkpoint(name)
    report = opened.planned(folder, opened.load())[1]
    mine = [one for one in report.sites if one.provider == "c"]
    assert {one.op for one in mine} >= {"experts"} | ({"linear"} if "fp8" in name else {"paged_attention"})
    assert {one.status for one in mine} == {"native"}
    assert not any(one.decode for one in mine) and all(one.asks for one in mine) and report.unverified == 0
    bound = Bound(report.sites, Workspace(0, torch.device("cpu")))
    for one in mine:
        function = getattr(bound.at(one.layer, one.place, one.phase), one.op)
        by_format = getclosurevars(function).nonlocals.get("functions", {})
        assert by_format.get(one.format, function) is kernels().get(one.kernel).fn
    found = opened.start(folder)
    right = start(folder, decoding(mapped(folder, "cpu", "float32")), "float32")
    pair = [score(engine.forward, engine.state, PROMPTS, chunk=64, decode_from=42) for engine in (found, right)]
    for one, other in zip(*pair, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def decoding(report: Any) -> Any:
    """The map with references instead of kernels in C."""
    changed = [one.model_copy(update={"kernel": None, "decode": one.format != "plain"}) if one.provider == "c" else one for one in report.sites]
    return report.model_copy(update={"sites": changed, "emulated": False})


def test_an_emulated_target_sees_what_the_map_predicts(tmp_path: Path, for_all: None) -> None:
    """What runs in C calls no operator of torch but those that the map lists."""
    folder = checkpoint("qwen3_moe-mxfp4")
    report = mapped(folder, manifest(tmp_path, lacks=("topk",), types=()))
    engine = start(folder, report)
    assert isinstance(engine.forward.mode, Emulation)
    score(engine.forward, engine.state, PROMPTS, chunk=64, decode_from=42)
    told: dict[Any, set[str]] = {}
    for one in report.sites:
        assert one.asks is not None
        told.setdefault(((one.layer, one.place, one.phase), one.op), set()).update(report.asks[one.asks].operators)
    ran = {caller: names for caller, names in engine.forward.mode.operators.items() if caller != BETWEEN}
    mine = {((one.layer, one.place, one.phase), one.op) for one in report.sites if one.provider == "c"}
    assert mine & set(ran)
    assert {caller: ran[caller] - told[caller] for caller in ran if not ran[caller] <= told[caller]} == {}
    assert set().union(*(ran[caller] for caller in mine & set(ran))) == set().union(*(told[caller] for caller in mine & set(ran)))
