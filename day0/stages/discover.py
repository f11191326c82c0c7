"""`day0 map-ops --executor community`: which torch operators the community's class of a model calls, and which of them a target lacks.

For a model that no family reads. Reads its configuration alone; needs torch and transformers, no weights. Nothing later reads the report.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from day0.checkpoint.folder import Checkpoint
from day0.engine.compositions import way_out
from day0.spec.lazy import torch_dtype
from day0.spec.reports.discovered import DiscoveredReport, DiscoveredRow, DiscoveredStatus
from day0.spec.reports.map_ops import AskRow
from day0.spec.target import UNVERIFIED, Target, Uses
from day0.stages.choose import few

if TYPE_CHECKING:
    from day0.community.discover import Calls, Key

TOKENS = 64  # of the prompt, where none are asked for: more than most tiny windows, few enough for any machine


def discover(checkpoint: Checkpoint, target: Target, dtype: str, tokens: int = TOKENS) -> DiscoveredReport:
    """Day0Error where transformers has no class for it, or where that class needs numbers to go on."""
    from day0.community.discover import discover as traced

    found = traced(checkpoint.config.data, str(checkpoint.source.where), torch_dtype(dtype), tokens)
    rows = sorted(judged(found.calls, target), key=lambda row: (row.phase == "decode", -row.bytes))
    for row in rows:
        row.share = row.bytes / sum(other.bytes for other in rows if other.phase == row.phase)
    return DiscoveredReport(
        verdict="incomplete" if any(row.status == "refused" for row in rows) else "complete",
        model=found.model, release=str(checkpoint.source.where), target=target.reference, tokens=tokens, dtype=dtype,
        assumed=[f"{operator} {assumption}" for operator, assumption in found.assumed.items()], rows=rows,
    )  # fmt: skip


def judged(found: "Mapping[Key, Calls]", target: Target) -> Iterator[DiscoveredRow]:
    """Each meaning held against the manifest."""
    for (op, module, phase), calls in found.items():
        uses = Uses(operators=frozenset(calls.operators), types=frozenset(calls.types))
        status, evidence = judge(uses, target)
        absent = [name for name in sorted(calls.operators) if target.line(name).has == "none"]
        yield DiscoveredRow(
            op=op, module=module, example=next(iter(calls.modules)), modules=len(calls.modules), phase=phase, calls=calls.count,
            asks=AskRow(operators=sorted(calls.operators), types=sorted(calls.types), exact=True), flops=calls.flops, bytes=calls.bytes,
            share=0, status=status, evidence=evidence, composed=[words for name in absent if (words := way_out(name, target))],
        )  # fmt: skip


def judge(uses: Uses, target: Target) -> tuple[DiscoveredStatus, str]:
    """What calls are on a target, and why that is believed."""
    lacking, unknown = uses.lacking(target), uses.unknown(target)
    if lacking:
        helped = target.host_fallback.has != "none"
        return ("host fallback" if helped else "refused"), f"{target.name} has no {few(lacking)}"
    if unknown:
        return "unverified", f"{UNVERIFIED}: {few(unknown)} on {target.name}"
    made = sorted(name for name in uses.operators if name.endswith("mm") and target.line(name).has == "composite")
    if made:
        return "composite", f"{target.name} puts {few(made)} together from others"
    return "native", f"{target.name} has all {len(uses.operators)} torch operators"
