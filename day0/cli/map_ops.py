"""Say which implementation runs each operator of a model, and why others do not.

The exit code is 1 when an operator is missing. DAY0_OPS=reference maps everything to the operators' own meanings.
"""

from typing import Annotated

import typer

from day0.cli import options

Target = Annotated[
    str | None, typer.Option("--machine", "--target", metavar="NAME", help="Machine that was planned for; default: the last one.")
]


def command(
    model: options.OptionalModel = None,
    machine: Target = None,
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

    chain = Chain.find(reports, model, find_machine(machine).name if machine else None)
    inspected, plan = chain.read(InspectReport), chain.read(PlanMemoryReport)
    report = map_ops(inspected, plan, plan.machine.machine())
    path = chain.write(report)
    console.show(report, view.map_ops, json=json, yaml=yaml)
    complete = report.verdict == "complete"
    console.note(f"Next: day0 validate --layer all   report: {path}" if complete else f"report: {path}")
    return 0 if complete else 1
