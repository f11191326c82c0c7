"""What an engine said when it started, beside the plan: the residual of each pool.

vLLM and SGLang print what each pool took on a card. SGLang writes GB and means 2^30 bytes; vLLM writes GiB.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from day0.spec.errors import Day0Error
from day0.spec.reports.calibration import Residual
from day0.spec.reports.plan_memory import PlanMemoryReport

GIB = 1 << 30
LIMIT = 64 << 20  # bytes of a log that are read
LONGEST = 4096  # characters of a line that are looked at
AMOUNT = r"(\d{1,6}(?:\.\d{1,6})?)\s*G(?:i)?B"
PATTERNS = {
    "weights": (rf"model weights take {AMOUNT}", rf"Model loading took {AMOUNT}", rf"Load weight end\..*mem usage={AMOUNT}"),
    "activations": (rf"activation peak memory takes {AMOUNT}",),
    "runtime": (rf"non_torch_memory takes {AMOUNT}",),
    "graphs": (rf"Graph capturing finished in .* took {AMOUNT}", rf"Capture cuda graph end\..*mem usage={AMOUNT}"),
    "room for state": (rf"reserved for KV Cache is {AMOUNT}", rf"Available KV cache memory: {AMOUNT}"),
}
TOKENS = (r"GPU KV cache size: (\d[\d,]{0,15}) tokens", r"KV Cache is allocated\..*#tokens: (\d[\d,]{0,15})", r"max_total_num_tokens=(\d{1,15})")


def calibrate(report: PlanMemoryReport, log: Path) -> list[Residual]:
    """One row for each pool that the log speaks of; Day0Error where it speaks of none."""
    found = list(_said(log))
    if not found:
        raise Day0Error("no line says what a pool of memory takes", log, hint="give the start-up log of vLLM or SGLang")
    kept: dict[str, tuple[int, int]] = {}
    for pool, amount, line in found:
        kept.setdefault(pool, (amount, line))
    planned = _planned(report)
    return [
        Residual(
            pool=pool, unit="tokens" if pool == "tokens" else "bytes", planned=planned.get(pool), measured=amount, line=line,
            share=(amount - planned[pool]) / amount if amount and pool in planned else None,
        )
        for pool, (amount, line) in kept.items()
    ]  # fmt: skip


def _planned(report: PlanMemoryReport) -> dict[str, int]:
    """Pool → what the plan has for it on the fullest card. Runtime and graphs are in its margin."""
    card = min(report.per_card, key=lambda each: each.free)
    room = card.state + card.free
    return {"weights": card.weights, "activations": card.activations, "room for state": room, "tokens": report.capacity.tokens}


def _said(log: Path) -> Iterator[tuple[str, int, int]]:
    """(pool, bytes or tokens, number of the line), in order."""
    try:
        size = log.stat().st_size
        text = log.read_text(encoding="utf-8", errors="replace") if size <= LIMIT else ""
    except OSError as error:
        raise Day0Error(f"the log cannot be read: {error.strerror}", log) from None
    if size > LIMIT:
        raise Day0Error(f"larger than {LIMIT >> 20} MiB", log, hint="give the lines of the start alone")
    for number, line in enumerate(text.splitlines(), 1):
        for pool, patterns in PATTERNS.items():
            match = next((found for pattern in patterns if (found := re.search(pattern, line[:LONGEST]))), None)
            if match:
                yield pool, round(float(match[1]) * GIB), number
        match = next((found for pattern in TOKENS if (found := re.search(pattern, line[:LONGEST]))), None)
        if match:
            yield "tokens", int(match[1].replace(",", "")), number
