"""Say which implementation runs each operator of a model, why others do not, and what share of the work falls back.

`--target` maps for another target without a plan for it, and writes nothing; with `--emulate` the map is written, and run, validate and
serve then refuse on this machine what that target lacks. The exit code is 1 when an operator is missing. DAY0_OPS=reference maps
everything to the operators' own meanings. `--executor community` needs neither a family nor a plan: it traces the class that transformers
has, and says which of its torch operators the target lacks; nothing is written.
"""

from typing import Annotated, Any

import typer

from day0.cli import options
from day0.spec.errors import Day0Error

Machine = Annotated[str | None, typer.Option("--machine", metavar="NAME", help="Machine that was planned for; default: the last one.")]
Target = Annotated[
    str | None, typer.Option("--target", metavar="NAME", help="A target's manifest, a YAML file as `day0 target` writes, or a machine.")
]
Emulate = Annotated[bool, typer.Option("--emulate", help="Run as on --target afterwards: refuse what it lacks.")]
Strict = Annotated[bool, typer.Option("--strict", help="Let nothing fall back: the answer is no where something does.")]


def command(
    model: options.OptionalModel = None,
    machine: Machine = None,
    target: Target = None,
    emulate: Emulate = False,
    strict: Strict = False,
    executor: options.Executor = "native",
    reports: options.Reports = options.REPORTS,
    json: options.Json = False,
    yaml: options.Yaml = False,
) -> int:
    """Map, write the report, show it."""
    from day0.render import console
    from day0.render import map_ops as view
    from day0.spec.reports.inspect import InspectReport
    from day0.spec.reports.plan_memory import PlanMemoryReport
    from day0.stages.chain import Chain
    from day0.stages.machines import find_machine
    from day0.stages.map_ops import map_ops

    manifest, machine = _target(target, machine)
    if executor == "community":
        return _discovered(model, manifest, machine, reports, json=json, yaml=yaml)
    if emulate and manifest is None:
        raise Day0Error("--emulate needs a target with a manifest", hint="day0 map-ops --target NAME --emulate")
    chain = Chain.find(reports, model, find_machine(machine).name if machine else None)
    plan = chain.read(PlanMemoryReport)
    report = map_ops(chain.read(InspectReport), plan, plan.machine.machine(), manifest, emulate=emulate, strict=strict)
    path = chain.write(report) if manifest is None or emulate else None
    console.show(report, view.map_ops, json=json, yaml=yaml)
    for row in report.fallbacks:
        if row.status == "host fallback":
            price = f"{row.decode:.1%} of decode" + (f", at least {row.slower:.0f}× slower" if row.slower else "")
            console.note(f"warning: {row.op} runs on the host, {row.calls} calls, {price}: {row.reason}")
    complete = report.verdict == "complete"
    if path is None:
        console.note(f"Not written: it is not about {plan.machine.name}. Next: day0 map-ops --target {target} --emulate")
    else:
        console.note(f"Next: day0 validate --layer all   report: {path}" if complete else f"report: {path}")
    return 0 if complete else 1


def _discovered(model: Any, manifest: Any, machine: str | None, reports: Any, *, json: bool, yaml: bool) -> int:
    """Trace the community's class, show what it calls."""
    from day0.checkpoint.folder import Checkpoint
    from day0.checkpoint.source import at
    from day0.engine.targets import target_of
    from day0.render import console
    from day0.render import discovered as view
    from day0.spec.reports.inspect import InspectReport
    from day0.stages.chain import Chain
    from day0.stages.discover import discover
    from day0.stages.machines import find_machine

    release = model or Chain.find(reports, None, None).read(InspectReport).model.folder
    target = manifest or target_of(find_machine(machine or "cpu"))
    report = discover(Checkpoint.open(at(release)), target, "bfloat16")
    console.show(report, view.discovered, json=json, yaml=yaml)
    return 0 if report.verdict == "complete" else 1


def _target(target: str | None, machine: str | None) -> tuple[Any, str | None]:
    """Manifest and machine that the options mean: what --target names is a manifest, else a machine."""
    from day0.engine.targets import find_target, is_target
    from day0.spec.registry import backends

    if target is None or (target in backends() and machine is None):
        return None, target or machine
    if is_target(target):
        return find_target(target), machine
    if machine is not None:
        raise Day0Error(f"{target!r} is no target", hint="give --target or --machine")
    return None, target
