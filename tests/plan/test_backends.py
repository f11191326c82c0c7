"""Backends: what they find on a machine, read from copies of the kernel's own files."""

import os
from pathlib import Path

import psutil
import pytest

from day0.backends import cpu, rocm
from day0.spec.registry import backends

GIB = 1 << 30


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


MEMINFO = {"proc/meminfo": "MemTotal:       16777216 kB\nMemFree:         1000000 kB\nMemAvailable:    8388608 kB\n"}


def test_a_host_offers_what_is_available(tmp_path: Path) -> None:
    assert cpu.usable_memory(write(tmp_path, MEMINFO)) == 8 * GIB


@pytest.mark.parametrize("where", ["sys/fs/cgroup", "sys/fs/cgroup/kube", "sys/fs/cgroup/kube/pod"])
def test_a_container_offers_what_its_limit_leaves(tmp_path: Path, where: str) -> None:
    """Version 2; the limit may stand at any group around the process. Page cache that can be dropped is not in use."""
    files = {
        "proc/self/cgroup": "0::/kube/pod\n",
        f"{where}/memory.max": f"{4 * GIB}\n",
        f"{where}/memory.current": f"{3 * GIB}\n",
        f"{where}/memory.stat": f"anon {GIB}\ninactive_file {2 * GIB}\nactive_file 0\n",
    }
    assert cpu.usable_memory(write(tmp_path, MEMINFO | files)) == 3 * GIB


def test_version_1_of_control_groups(tmp_path: Path) -> None:
    """Inside a container the path in /proc/self/cgroup may not exist below the mount: the mount itself holds the limit."""
    files = {
        "proc/self/cgroup": "5:devices:/\n4:memory:/docker/0123\n0::/\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2 * GIB}\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{GIB}\n",
        "sys/fs/cgroup/memory/memory.stat": "total_inactive_file 0\n",
    }
    assert cpu.usable_memory(write(tmp_path, MEMINFO | files)) == GIB


@pytest.mark.parametrize("limit", ["max", "9223372036854771712"])
def test_no_limit_is_no_limit(tmp_path: Path, limit: str) -> None:
    files = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": f"{limit}\n", "sys/fs/cgroup/memory.current": "5\n"}
    assert cpu.usable_memory(write(tmp_path, MEMINFO | files)) == 8 * GIB


def test_a_group_over_its_limit_offers_nothing(tmp_path: Path) -> None:
    files = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": f"{GIB}\n", "sys/fs/cgroup/memory.current": f"{2 * GIB}\n"}
    assert cpu.usable_memory(write(tmp_path, MEMINFO | files)) == 0


def test_this_machine_as_psutil_sees_it() -> None:
    machine = cpu.probe()
    assert 0 < machine.card.memory <= psutil.virtual_memory().total
    assert str(len(os.sched_getaffinity(0))) in machine.card.name


def test_memory_figures_as_psutil_sees_them() -> None:
    backend = backends().get("cpu")
    kept = bytearray(os.urandom(1 << 20)) * 64
    del kept
    backend.reset_peak(None)
    figures, resident = backend.memory(None), psutil.Process().memory_info().rss
    assert abs(figures["used"] - resident) < 32 << 20
    assert figures["used"] <= figures["peak"] <= figures["total"]


def test_the_peak_is_seen_and_forgotten() -> None:
    backend = backends().get("cpu")
    backend.reset_peak(None)
    before = backend.memory(None)["peak"]
    kept = bytearray(os.urandom(1 << 20)) * 256
    assert backend.memory(None)["peak"] >= before + (200 << 20)
    del kept
    backend.reset_peak(None)
    if not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("this kernel does not let a process reset its peak")
    assert backend.memory(None)["peak"] < before + (200 << 20)


def test_amd_cards_from_the_compute_driver(tmp_path: Path) -> None:
    """Node 0 is the processor: it has no graphics version; an MI300X reports 90402, an MI250X 90010."""
    write(tmp_path, {
        "0/properties": "cpu_cores_count 96\ngfx_target_version 0\n",
        "0/mem_banks/0/properties": f"heap_type 0\nsize_in_bytes {512 * GIB}\n",
        "1/properties": "simd_count 1216\ngfx_target_version 90402\n",
        "1/mem_banks/0/properties": f"heap_type 1\nsize_in_bytes {192 * GIB}\n",
        "10/properties": "simd_count 440\ngfx_target_version 90010\n",
        "10/mem_banks/0/properties": f"heap_type 1\nsize_in_bytes {64 * GIB}\n",
    })  # fmt: skip
    assert [(card.arch, card.memory // GIB) for card in rocm.cards_of(tmp_path)] == [("gfx942", 192), ("gfx90a", 64)]


@pytest.mark.parametrize("name", backends().names())
def test_every_backend_says_what_it_is(name: str) -> None:
    backend = backends().get(name)
    assert backend.name == name
    assert "reference" not in backend.providers, "references are always tried last"
    machine = backend.probe()
    assert machine is None or (machine.backend == name and machine.card.memory > 0 and machine.cards > 0)
