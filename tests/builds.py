"""Compiles every build of every Triton kernel for every target, without a device, and writes down what came of it.

    python -m tests.builds docs/kernels.md templates/triton_builds.yaml [FILE ...]

writes the page that people read and the table that `day0 map-ops` takes as evidence; with names of files in kernels/, these alone are
compiled anew, unless the table is of another version of Triton. About half a second a kernel and target.
"""

import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from day0.spec.build import TARGETS
from tests.kernels import aot, calls
from tests.kernels.listing import Figures

HEAD = "# Written by `python -m tests.builds`: kernels compiled ahead of time, without a device.\n"
Table = dict[str, list[dict[str, Any]]]  # file of kernels → rows


def rows(file: str, targets: tuple[str, ...] = TARGETS, most: int | None = None) -> list[dict[str, Any]]:
    """Of one file, as they are written."""
    return [
        {"build": row.build.name, "kernel": row.kernel, "dtype": row.build.dtype, "format": row.build.format,
         "targets": {arch: plain(one) for arch, one in row.targets.items()}}
        for row in aot.compiled(file, targets, most)
    ]  # fmt: skip


def plain(one: Figures | str) -> dict[str, Any] | str:
    """Without what is empty."""
    if isinstance(one, str):
        return one
    return {name: list(value) if isinstance(value, tuple) else value for name, value in one._asdict().items() if value != ()}


def text(table: Table) -> str:
    """The file that `day0 map-ops` reads: a line a build and target."""
    lines = [HEAD + f"triton: {version('triton')}", "kernels:"]
    for file, found in sorted(table.items()):
        lines.append(f"  {file}:")
        for row in found:
            said = [f"{name}: {flow(value)}" for name, value in row.items() if name != "targets"]
            lines += [f"  - {said[0]}", *(f"    {one}" for one in said[1:])]
            lines += ["    targets:", *(f"      {arch}: {flow(one)}" for arch, one in row["targets"].items())]
    return "\n".join(lines) + "\n"


def flow(one: Any) -> str:
    return yaml.safe_dump(one, default_flow_style=True, width=1000, sort_keys=False).removesuffix("...\n").strip()


def page(table: Table) -> str:
    """The same for people."""
    lines = [
        "# Triton kernels, compiled for six targets", "",
        f"Written by `python -m tests.builds` with Triton {version('triton')}; no device took part. A cell is registers of a thread, bytes that",
        "it spills (where it does), shared memory of a block (where there is any), and the matrix instructions of the listing. **Bold**",
        "is a finding: a spill, or a product for whose type there is no matrix instruction: it is widened, or becomes ordinary arithmetic.",
        "Every kernel is compared with its operator's reference in Triton's interpreter by `tests/kernels`.", "",
    ]  # fmt: skip
    lines += [f"| file | build | kernel | {' | '.join(TARGETS)} |", "|---|---|---|" + "---|" * len(TARGETS)]
    for file, found in sorted(table.items()):
        for row in found:
            lines.append(f"| {file} | {row['build']} | {row['kernel']} | {' | '.join(cell(row['targets'].get(arch, '')) for arch in TARGETS)} |")
    return "\n".join(lines) + "\n"


def cell(one: dict[str, Any] | str) -> str:
    """One build on one target."""
    if isinstance(one, str):
        return one
    shared = one["shared"]
    said = [f"{one['registers']}", f"**{one['spilled']} spilled**" if one["spilled"] else ""]
    said += ["" if not shared else f"{shared} B" if shared < 1024 else f"{shared / 1024:.3g} KiB", *one.get("matrix", ())]
    return ", ".join(filter(None, [*said, *(f"**{kind} emulated**" for kind in one.get("emulated", ()))]))


def main(arguments: list[str]) -> None:
    out, data = Path(arguments[0]), Path(arguments[1])
    known = yaml.safe_load(data.read_text(encoding="utf-8")) if data.is_file() else {}
    same = known.get("triton") == version("triton")
    chosen = arguments[2:] if same and arguments[2:] else calls.FILES
    table: Table = {file: found for file, found in known["kernels"].items() if file in calls.FILES} if same else {}
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn"), initializer=aot.start) as pool:
        for file, found in zip(chosen, pool.map(rows, chosen), strict=True):
            table[file] = found
            print(file, file=sys.stderr)
            data.write_text(text(table), encoding="utf-8")
            out.write_text(page(table), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
