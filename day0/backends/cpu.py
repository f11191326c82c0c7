"""The processor and its memory; every machine has it."""

import contextlib
import os
import platform
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from day0.spec.lazy import torch
from day0.spec.machine import Backend, Card, Machine

ROOT = Path("/")


def probe() -> Machine:
    """This machine without its accelerators."""
    memory = usable_memory()
    card = Card(name=f"{processor()} ({cores()} cores)", memory=memory, arch=platform.machine(), evidence={"memory": "measured"})
    return Machine(name="this-machine", backend="cpu", card=card, cards_per_node=1, host_memory=memory, declared=False)


def cores() -> int:
    """Processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor(root: Path = ROOT) -> str:
    """Name of the processor as it gives it."""
    found = re.search(r"^(?:model name|Model)\s*:\s*(.+)$", _read(root / "proc/cpuinfo"), re.MULTILINE)
    return found[1].strip() if found else platform.processor() or platform.machine()


def usable_memory(root: Path = ROOT) -> int:
    """Bytes that this process can still take: what the host has available, or what its control group leaves, whichever is less."""
    available = _kilobytes(root / "proc/meminfo", "MemAvailable")
    if available is None:  # not Linux
        available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(0, min([available, *_group_room(root)]))


def _group_room(root: Path) -> Iterator[int]:
    """Bytes left below the limit of each control group around this process; page cache that can be dropped counts as free."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            for mount in ("sys/fs/cgroup", "sys/fs/cgroup/unified"):
                yield from _rooms(root / mount, path, "memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            yield from _rooms(root / "sys/fs/cgroup/memory", path, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def _rooms(mount: Path, path: str, limit_file: str, used_file: str, cache_key: str) -> Iterator[int]:
    """The same for one hierarchy: the group at `path` and those above it, as far as they can be seen below `mount`."""
    inner = PurePosixPath(path.lstrip("/"))
    for group in dict.fromkeys(mount / part for part in (inner, *inner.parents)):
        limit, used = _number(group / limit_file), _number(group / used_file)
        if limit is not None:
            cache = re.search(rf"^{cache_key} (\d+)$", _read(group / "memory.stat"), re.MULTILINE)
            yield limit - (used or 0) + (int(cache[1]) if cache else 0)


def _number(path: Path) -> int | None:
    text = _read(path).strip()
    return int(text) if text.isdigit() else None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return ""


def _kilobytes(path: Path, key: str) -> int | None:
    """A value of /proc/meminfo or /proc/self/status, in bytes."""
    found = re.search(rf"^{key}:\s+(\d+) kB$", _read(path), re.MULTILINE)
    return int(found[1]) << 10 if found else None


def device(_rank: int) -> Any:
    return torch.device("cpu")


def synchronise(_device: Any) -> None:
    """Nothing to wait for: calls return when their work is done."""


def memory(_device: Any) -> dict[str, int]:
    """Resident set of this process, its peak since `reset_peak`, and what the process can have in all."""
    status = ROOT / "proc/self/status"
    used, peak = _kilobytes(status, "VmRSS"), _kilobytes(status, "VmHWM")
    if used is None or peak is None:
        used = peak = _peak_elsewhere()
    return {"used": used, "peak": peak, "total": used + usable_memory()}


def _peak_elsewhere() -> int:
    """Largest resident set so far where there is no /proc."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if platform.system() == "Darwin" else 1024)


def reset_peak(_device: Any) -> None:
    """Start the peak of the resident set anew (Linux; where that is not permitted the peak stays that of the whole process)."""
    with contextlib.suppress(FileNotFoundError, PermissionError):
        Path("/proc/self/clear_refs").write_text("5")


BACKEND = Backend(
    name="cpu",
    providers=("c", "torch"),
    probe=probe,
    device=device,
    synchronise=synchronise,
    memory=memory,
    reset_peak=reset_peak,
    collectives="gloo",
)
