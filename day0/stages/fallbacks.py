"""What a map falls back on: operators that nothing was made for here, their share, and how to make it; number types; vendors' kernels."""

from collections.abc import Iterable, Mapping
from typing import Literal

from day0.engine.compositions import way_out
from day0.engine.release import Release
from day0.spec import dtype as number
from day0.spec.lazy import TORCH_NAMES
from day0.spec.machine import Machine
from day0.spec.ops import PHASES
from day0.spec.registry import ops
from day0.spec.reports.map_ops import FALLBACKS, AskRow, DeviceRow, FallbackRow, MapStatus, SiteRow, TypeRow
from day0.spec.reports.plan_memory import PlanMemoryReport
from day0.spec.target import Target, VendorKernel

Use = Literal["weights", "compute", "state"]
STATE_TYPES = {"fp8": "float8_e4m3fn", "int8": "int8"}  # of plan-memory's --kv-dtype → torch's name
FLAVOURS = {"float8_e4m3fn": "float8_e4m3fnuz", "float8_e5m2": "float8_e5m2fnuz"}  # types that some hardware has in another flavour


def fallbacks(rows: Iterable[SiteRow], asks: Mapping[str, AskRow], target: Target, machine: Machine) -> list[FallbackRow]:
    """One for each operator and way out."""
    groups: dict[tuple[str, str], list[SiteRow]] = {}
    for row in rows:
        if row.status in FALLBACKS or row.decode:
            groups.setdefault((row.op, row.status), []).append(row)
    found = [fallback(members, asks, target, machine) for members in groups.values()]
    return sorted(found, key=lambda each: (-each.decode, -each.prefill, each.op))


def fallback(members: list[SiteRow], asks: Mapping[str, AskRow], target: Target, machine: Machine) -> FallbackRow:
    """The row of calls that share operator and status."""
    first = members[0]
    shares = {phase: sum(row.share for row in members if row.phase == phase) for phase in PHASES}
    least = sum(row.bytes for row in members)
    traffic = sum(row.traffic for row in members) / least if least else 1.0
    asked = {name for row in members if row.asks for name in asks[row.asks].operators if target.line(name).has == "none"}
    op = ops().load(first.op) if first.op in ops() else None
    return FallbackRow(
        op=first.op, status=first.status, formats=sorted({row.format for row in members}), calls=len(members), **shares,
        layers=sorted({row.layer for row in members if row.layer is not None}), traffic=traffic,
        unpacked=max(sum(row.unpacked for row in members if row.phase == phase and row.decode) for phase in PHASES),
        slower=slower(first.status, traffic, machine), reason=reason(members),
        instead=op.instead.format(**first.sizes) if op else "",
        composed=[words for name in sorted(asked) if (words := way_out(name, target))], remedy=remedy(first),
    )  # fmt: skip


def reason(members: list[SiteRow]) -> str:
    """The last refusal of the first call that has one."""
    return next((row.refusals[-1].reason for row in members if row.refusals), "no implementation is offered")


def slower(status: MapStatus, traffic: float, machine: Machine) -> float | None:
    """Of the least time of a call: bytes as mapped; where the host runs it, arguments and results cross the link to it."""
    if status != "host fallback":
        return traffic
    return traffic * machine.card.bandwidth / machine.host_link if machine.card.bandwidth and machine.host_link else None


def remedy(row: SiteRow) -> str:
    """The command that drafts what would run the call better."""
    if row.status == "missing":
        return f"day0 new op {row.op}"
    asked = {refusal.provider for refusal in row.refusals}
    return f"day0 new kernel {row.op}_{'vendor' if 'torch' in asked or row.provider == 'torch' else 'torch'}"


def devices(rows: list[SiteRow]) -> dict[Literal["target", "host"], DeviceRow]:
    """Calls and bytes of the target and of the host that helps it."""
    found: dict[Literal["target", "host"], DeviceRow] = {}
    for name in ("target", "host"):
        mine = [row for row in rows if (row.status == "host fallback") == (name == "host") and row.provider]
        moved = {phase: sum(row.traffic for row in mine if row.phase == phase) for phase in PHASES}
        if mine:
            found[name] = DeviceRow(calls=len(mine), **moved)  # type: ignore[index]
    return found


def vendors(fell: Iterable[FallbackRow], target: Target) -> list[VendorKernel]:
    """What libraries have for the operators that fall back."""
    ops = {row.op for row in fell}
    return [kernel for kernel in target.kernels if kernel.op in ops]


def type_rows(release: Release, plan: PlanMemoryReport, target: Target) -> list[TypeRow]:
    """Types of the weights that the model uses, as they are stored, and the compute type."""
    stored = {
        TORCH_NAMES.get(header.dtype, "uint8")
        for located in release.tensors.values() for _, each in located.pieces for header in each.kept.values()
    }  # fmt: skip
    compute, kept = plan.workload.dtype, STATE_TYPES.get(plan.workload.kv_dtype or "")
    rows = [type_row(name, "weights", compute, target) for name in sorted(stored - {compute})]
    rows.append(type_row(compute, "compute", compute, target))
    return [*rows, state_row(kept, plan, target)] if kept else rows


def state_row(name: str, plan: PlanMemoryReport, target: Target) -> TypeRow:
    """Keys, values and latents in 8 bits: kernels must read them, which the compiler or the hardware must know."""
    row, known, compute = type_row(name, "state", plan.workload.dtype, target), target.types.get(name), plan.workload.dtype
    if known and "native" in (known.matrix, known.compiled):
        return row.model_copy(update={"handling": "kept so; kernels read it"})
    more = sum(pool.bytes for pool in plan.state.pools if pool.kind in ("paged", "window")) * (number.size(compute, 1) - 1)
    said = f"not available here: {compute} instead, up to {more} bytes more; plan again with --kv-dtype {compute}"
    return row.model_copy(update={"handling": said if known and known.matrix == "none" else f"not verified; where it is {said}"})


def type_row(name: str, use: Use, compute: str, target: Target) -> TypeRow:
    """What becomes of one type."""
    line, known = target.cast(name), target.types.get(name)
    if use == "compute":
        handling = "computed in" if line.has != "none" else "the host computes in it"
    elif line.has == "none":
        handling = f"kept as bytes; the host converts it to {compute} when it is used"
    else:
        handling = f"kept as stored, converted to {compute} when it is used"
    if line.has == "emulated":
        handling += ", by bit arithmetic"
    other = FLAVOURS.get(name, "")
    if other and other in target.types and target.types[other].matrix == "native" and (known is None or known.matrix != "native"):
        handling += f"; its hardware multiplies {other}, whose codes differ: byte 0x80 is NaN there and -0 here, the exponent's bias is one more"
    return TypeRow(type=name, use=use, cast=line.has, matrix=known.matrix if known else "unknown", handling=handling, source=line.source)
