"""Every file of Triton kernels: in the interpreter against its operator's reference, and compiled for six targets without a device."""

import importlib
from concurrent.futures import ProcessPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from day0.engine.compiled import compiled, recorded
from day0.engine.targets import named_target, target_names
from day0.spec.build import TARGETS
from day0.spec.registry import kernels
from tests import builds
from tests.kernels import calls, interpret, listing, probes

ROOT = Path(__file__).parents[2]
EXAMPLE = "rms_norm_triton"
QUICK = ("sm_90", "gfx942")
FAULTS = {
    "an element that nobody writes": ("mask=inside)\n\n", "mask=inside & (at + 1 < D))\n\n"),
    "a read without a mask": ("mask=inside, other=0)", "mask=row < rows, other=0)"),
    "masked elements that are not said to be zero": ("mask=inside, other=0)", "mask=inside)"),
    "a write beyond the end": ("mask=inside)\n\n", "mask=row < rows)\n\n"),
    "rows that must lie side by side": ("row // H * stride_t", "row // H * (H * D)"),
    "an average over the block": ("keep_dims=True) / D", "keep_dims=True) / BLOCK"),
    "a sum in the narrow type": ("tl.store(y + row * D + at, value.to", "tl.store(y + row * D + at, (value.to(tl.float8e5)).to"),
    "another type": ("torch.empty(x.shape, dtype=x.dtype,", "torch.empty(x.shape, dtype=torch.float32,"),
}


@pytest.mark.parametrize("file", calls.FILES)
def test_agrees_with_the_reference_in_float64(file: str, interpreter: ProcessPoolExecutor) -> None:
    for dtype in calls.MOST:
        ran, wrong = interpreter.submit(interpret.check, file, dtype).result()
        assert wrong == {}
        assert ran or dtype != "bfloat16", "it refuses every case"


@pytest.mark.slow
@pytest.mark.parametrize("file", calls.FILES)
def test_agrees_on_every_case(file: str, interpreter: ProcessPoolExecutor) -> None:
    assert [interpreter.submit(interpret.check, file, dtype, True).result()[1] for dtype in calls.MOST] == [{}] * len(calls.MOST)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_kernel_is_found(fault: str, tmp_path: Path, interpreter: ProcessPoolExecutor) -> None:
    old, new = FAULTS[fault]
    text = (ROOT / "kernels" / f"{EXAMPLE}.py").read_text(encoding="utf-8")
    assert text.count(old) == 1, fault
    path = tmp_path / "faulty.py"
    path.write_text(text.replace(old, new), encoding="utf-8")
    assert interpreter.submit(interpret.check, str(path), "bfloat16").result()[1], fault


@pytest.mark.parametrize("file", calls.FILES)
def test_compiles_and_spills_nothing(file: str, compiler: ProcessPoolExecutor) -> None:
    """The first build of a file, for two of the six targets."""
    found = compiler.submit(builds.rows, file, QUICK, 1).result()
    known = recorded()["kernels"].get(file, [])[: len(found)]
    judge_rows(file, found, [row | {"targets": {arch: row["targets"][arch] for arch in QUICK}} for row in known])


@pytest.mark.slow
@pytest.mark.parametrize("file", calls.FILES)
def test_compiles_for_every_target_and_spills_nothing(file: str, compiler: ProcessPoolExecutor) -> None:
    judge_rows(file, compiler.submit(builds.rows, file).result(), recorded()["kernels"].get(file, []))


def judge_rows(file: str, rows: list[dict[str, Any]], known: list[dict[str, Any]]) -> None:
    """The table that comes with day0 is what this Triton makes of the file; another version may give other figures."""
    assert rows, "no build is compiled"
    meant = {build.name: build.explained for _, build, _, _ in calls.builds(file)}
    found = [(row["build"], row["kernel"], arch) for row in rows for arch, one in row["targets"].items() if spilled(one)]
    assert [where for where in found if where[2] not in meant[where[0]]] == []
    if metadata.version("triton") == recorded()["triton"]:
        assert known == rows, f"python -m tests.builds docs/kernels.md templates/triton_builds.yaml {file}"


def spilled(one: dict[str, Any] | str) -> bool:
    return not isinstance(one, str) and one["spilled"] > 0


def test_blocks_have_the_shared_memory_that_they_ask_for() -> None:
    """By the manifests of the architectures."""
    limits = {target.arch: target.shared_memory_kib for target in map(named_target, target_names()) if target.arch in TARGETS}
    assert set(limits) == set(TARGETS)
    every = [(file, row["build"], row["kernel"], arch, one) for file, rows in recorded()["kernels"].items() for row in rows
             for arch, one in row["targets"].items()]  # fmt: skip
    assert [where for *where, one in every if not isinstance(one, str) and one["shared"] > limits[where[3]] * 1024] == []


def test_the_table_knows_no_other_files() -> None:
    assert [*recorded()["kernels"]] == calls.FILES


@pytest.mark.parametrize("file", calls.FILES)
def test_is_declared(file: str) -> None:
    impl, module = kernels().get(file), importlib.import_module(f"day0.kernels.{file}")
    assert impl.status == "compiled"
    assert len({build.name for build in module.BUILDS}) == len(module.BUILDS) > 0
    assert all(compiled(file, "sm_90", build.dtype, build.format)[1].startswith("Triton") for build in module.BUILDS)


@pytest.mark.parametrize(("line", "operands"), [
    ("%9 = tt.dot %7, %8, %1, inputPrecision = tf32 : tensor<64x32xf8E4M3FN> * tensor<32x64xf8E4M3FN> -> tensor<64x64xf32>", {"fp8"}),
    ("%9 = tt.dot %7, %8, %1, inputPrecision = tf32 : tensor<64x32xf32> * tensor<32x64xf32> -> tensor<64x64xf32>", {"tf32"}),
    ("%9 = tt.dot %7, %8, %1 : tensor<64x32xf32> * tensor<32x64xf32> -> tensor<64x64xf32>", {"fp32"}),
    ("%9 = tt.dot %7, %8, %1, inputPrecision = bf16x6 : tensor<64x32xf32> * tensor<32x64xf32> -> tensor<64x64xf32>", {"16-bit"}),
    ("%9 = tt.dot %7, %8, %1 : tensor<64x32xbf16> * tensor<32x64xbf16> -> tensor<64x64xf32>", {"16-bit"}),
    ("%9 = tt.dot_scaled %7 scale %5, %8 scale %6, %1 lhs = e4m3 rhs = e2m1 {fastMath = false} : tensor<64x32xi8>", {"fp8"}),
    ("%9 = tt.load %7 : tensor<64x!tt.ptr<bf16>>", set()),
])  # fmt: skip
def test_what_a_product_needs(line: str, operands: set[str]) -> None:
    """By the wider of its operands: no matrix unit multiplies a narrow number with a wide one."""
    assert listing.products(line) == operands


def test_the_interpreter_computes_as_a_device_does(interpreter: ProcessPoolExecutor) -> None:
    """With narrow floats too, of which Triton's own interpreter computes with the codes."""
    found = interpreter.submit(probes.run).result()
    assert [what for what, right in found.items() if not right] == []
    assert len(found) == 2 * len(probes.TYPES) + 6
