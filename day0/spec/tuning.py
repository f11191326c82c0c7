"""Block sizes, warps and stages of Triton kernels, by architecture and size: data in `templates/tuning/`, one file a kernel.

A row is `{arch: [sm_90], up_to: {T: 16}, set: {BLOCK_M: 16, num_warps: 4}}`; the first whose conditions hold is taken. `arch` names
architectures (all, where it is left out), `up_to` the largest sizes, `set` arguments of the launch.
"""

from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import resources
from typing import Any

import yaml

from day0.spec.lazy import torch
from day0.spec.reports.base import Loader


def tuned(kernel: str, device: "torch.device", **sizes: int) -> Mapping[str, int]:
    """Arguments of a launch on `device`, for `**`. The table's last row must hold for everything."""
    return _row(kernel, architecture(device), tuple(sizes.items()))


@cache
def architecture(device: "torch.device") -> str:
    """Such as "sm_90" or "gfx942"; empty for a processor."""
    if device.type != "cuda":
        return ""
    properties = torch.cuda.get_device_properties(device)
    name = getattr(properties, "gcnArchName", "").partition(":")[0] if torch.version.hip else ""
    return name or f"sm_{properties.major}{properties.minor}"


@lru_cache(maxsize=4096)
def _row(kernel: str, arch: str, sizes: tuple[tuple[str, int], ...]) -> Mapping[str, int]:
    for row in table(kernel):
        known = dict(sizes)
        if arch in row.get("arch", [arch]) and all(known[axis] <= most for axis, most in row.get("up_to", {}).items()):
            found: Mapping[str, int] = row["set"]
            return found
    raise AssertionError(f"the last row of templates/tuning/{kernel}.yaml has a condition")


@cache
def table(kernel: str) -> list[dict[str, Any]]:
    """All rows of a kernel."""
    text = (resources.files("day0.templates") / "tuning" / f"{kernel}.yaml").read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = yaml.load(text, Loader=Loader)
    return rows


def warps(elements: int) -> int:
    """Warps of a program that holds `elements` numbers: 16 to a thread, as far as a block has threads. `elements` is a power of two."""
    return min(16, max(1, elements // 512))
