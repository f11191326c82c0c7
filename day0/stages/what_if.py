"""The plan again with some of its figures changed: `context=128k,batch=4,cards=16`."""

from dataclasses import replace
from typing import Any

from day0.spec.errors import Day0Error
from day0.spec.machine import Machine
from day0.spec.reports.calibration import Variant
from day0.spec.reports.inspect import InspectReport
from day0.spec.workload import Workload, token_count
from day0.stages.plan_memory import plan_memory

MOST = {"batch": 1 << 20, "cards": 1 << 12}


def what_if(inspected: InspectReport, machine: Machine, workload: Workload, text: str) -> Variant:
    """What `text` would change."""
    changes = parsed(text)
    cards = changes.pop("cards", machine.cards)
    report = plan_memory(inspected, replace(machine, cards=cards), replace(workload, **changes))
    card = min(report.per_card, key=lambda each: each.free)
    place = report.placement
    return Variant(
        change=text, verdict=report.verdict, cards=report.cards, placement=f"tp {place.tp} · ep {place.ep} · pp {place.pp} · dp {place.dp}",
        free=card.free, max_context=report.capacity.max_context, max_batch=report.capacity.max_batch,
    )  # fmt: skip


def parsed(text: str) -> dict[str, Any]:
    """Names and numbers; Day0Error for what is neither."""
    found: dict[str, Any] = {}
    for each in text.split(","):
        name, _, value = (part.strip() for part in each.partition("="))
        if name not in ("context", "batch", "cards") or name in found:
            raise Day0Error(f"--what-if does not know {each.strip()!r}", hint="such as context=128k,batch=4,cards=16")
        found[name] = token_count(value)
        if found[name] > MOST.get(name, found[name]):
            raise Day0Error(f"{name} {found[name]} is more than {MOST[name]}", hint="ask for less")
    return found
