"""AMD cards, through a build of torch that has ROCm; torch calls such a device "cuda" too."""

import os
import re
from dataclasses import replace
from pathlib import Path

from day0.backends import cpu, cuda
from day0.spec.machine import Card, Machine

TOPOLOGY = Path("/sys/class/kfd/kfd/topology/nodes")
PUBLIC_HEAP, PRIVATE_HEAP = "1", "2"  # heap types of memory on the card (linux/kfd_sysfs.h)


def probe() -> Machine | None:
    """The cards that the kernel's compute driver lists, less those that HIP_VISIBLE_DEVICES hides; None when there is none."""
    cards = cards_of(TOPOLOGY) if cuda.built_with("torch_hip") else []
    visible = os.environ.get("HIP_VISIBLE_DEVICES")
    if visible is not None:
        cards = [cards[int(i)] for i in visible.split(",") if i.strip().isdigit() and int(i) < len(cards)]
    if not cards:
        return None
    return Machine(
        name="this-machine",
        backend="rocm",
        card=cards[0],
        cards=len(cards),
        cards_per_node=len(cards),
        host_memory=cpu.usable_memory(),
        declared=False,
    )


def cards_of(topology: Path) -> list[Card]:
    """Every node of the topology that computes and has memory of its own."""
    cards = []
    for node in sorted(topology.glob("*"), key=lambda path: int(path.name)):
        version = int(_properties(node / "properties").get("gfx_target_version", "0"))
        banks = [_properties(path) for path in node.glob("mem_banks/*/properties")]
        memory = sum(int(bank["size_in_bytes"]) for bank in banks if bank.get("heap_type") in (PUBLIC_HEAP, PRIVATE_HEAP))
        if version and memory:
            arch = f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"
            cards.append(Card(name=f"AMD {arch}", memory=memory, arch=arch, evidence={"memory": "measured", "arch": "measured"}))
    return cards


def _properties(path: Path) -> dict[str, str]:
    """Lines of "key value"."""
    text = path.read_text() if path.is_file() else ""
    return dict(re.findall(r"^(\w+) (\S+)$", text, re.MULTILINE))


BACKEND = replace(cuda.BACKEND, name="rocm", probe=probe)
