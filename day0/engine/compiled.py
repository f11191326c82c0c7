"""What kernels were compiled to for each architecture, looked up in a table that was made without a device. Needs neither torch nor Triton.

`templates/triton_builds.yaml` holds, for each build of each file of kernels: registers of a thread, bytes that it spills, shared memory of a
block, matrix instructions, and the types of products that have none.
"""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import yaml

from day0.spec.reports.base import Loader

Row = Mapping[str, Any]


@cache
def recorded() -> Mapping[str, Any]:
    """`triton`: its version; `kernels`: file → rows."""
    found: Mapping[str, Any] = yaml.load((resources.files("day0.templates") / "triton_builds.yaml").read_text(encoding="utf-8"), Loader=Loader)
    return found


def compiled(kernel: str, arch: str, dtype: str, form: str) -> tuple[bool, str]:
    """Whether products of such a call run on matrix instructions of their type, and the evidence, which begins with "not verified" if none is.

    Where a kernel has no products, one type speaks for others.
    """
    rows = [row for row in recorded()["kernels"].get(kernel, ()) if row["format"] == form and isinstance(row["targets"].get(arch), dict)]
    same = [row for row in rows if row["dtype"] == dtype]
    if not same and any(row["targets"][arch].get("matrix") or row["targets"][arch].get("emulated") for row in rows):
        rows = []
    found = [row["targets"][arch] for row in same or rows]
    if not found:
        return False, f"not verified: never compiled for {arch} in {dtype} with {form} weights"
    emulated = sorted({kind for one in found for kind in one.get("emulated", ())})
    matrix = sorted({kind for one in found for kind in one.get("matrix", ())})
    spilled = max(one["spilled"] for one in found)
    said = [
        f"{max(one['registers'] for one in found)} registers", f"{spilled} bytes spilled" if spilled else "none spilled",
        ", ".join(matrix) if matrix else "no matrix instruction", *(f"{kind} products emulated" for kind in emulated),
    ]  # fmt: skip
    return not emulated, f"Triton {recorded()['triton']} compiled it for {arch} in {(same or rows)[0]['dtype']}: {'; '.join(said)}"
