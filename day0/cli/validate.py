"""Compare a model with its reference, from weights to logits and answers over HTTP, and name the first thing that is wrong.

Needs the extra [reference] from the rung "layers" on. The exit code is 1 when something is wrong, 2 when
neither a layer nor the logits could be compared or the time was over. A run that was stopped goes on where it was when it is started again.
"""

from typing import Annotated, Literal

import typer

from day0.cli import options

Layers = Annotated[str, typer.Option("--layer", "--layers", metavar="N|A-B|all", help="Layers to compare; several with commas.")]
Rungs = Literal["weights", "operators", "layers", "model", "service"]
Until = Annotated[Rungs, typer.Option("--until", help="Highest rung of the ladder to climb.")]
Only = Annotated[Rungs | None, typer.Option("--only", help="Climb this rung alone.")]
Inputs = Annotated[
    Literal["reference", "random"],
    typer.Option("--inputs", help="What enters a layer: the reference's hidden states (runs all layers before it), or drawn values."),
]
Tokens = Annotated[int | None, typer.Option("--tokens", min=2, help="Length of the sequence; default: beyond windows where affordable.")]

Switch = Annotated[
    Literal["kv-int8", "kv-fp8", "kv-bf16", "dtype"] | None,
    typer.Option("--switch", help="Turn a type of state, or the model's own type, on layer by layer, and name the layers that do not bear it."),
]
Minutes = Annotated[float | None, typer.Option("--budget", min=0.0, metavar="MINUTES", help="Begin nothing new after this time.")]


def command(
    model: options.OptionalModel = None,
    layers: Layers = "all",
    until: Until = "model",
    only: Only = None,
    dtype: options.Dtype = None,
    inputs: Inputs = "reference",
    tokens: Tokens = None,
    budget: Minutes = None,
    switch: Switch = None,
    machine: options.Machine = None,
    reports: options.Reports = options.REPORTS,
    json: options.Json = False,
    yaml: options.Yaml = False,
) -> int:
    """Compare, write the report, show it."""
    from day0.render import console
    from day0.render import validate as view
    from day0.render.progress import progress
    from day0.spec.reports.inspect import InspectReport
    from day0.spec.reports.map_ops import MapOpsReport
    from day0.spec.reports.plan_memory import PlanMemoryReport
    from day0.stages.chain import Chain
    from day0.stages.machines import find_machine
    from day0.stages.validate import validate

    chain = Chain.find(reports, model, find_machine(machine).name if machine else None)
    before = chain.read(InspectReport), chain.read(PlanMemoryReport), chain.read(MapOpsReport)
    journal = chain.folder / "validate-layer.partial"
    with progress() as listen:
        report = validate(
            *before, layers=layers, until=until, only=[only] if only else (), dtype=dtype, inputs=inputs, tokens=tokens, progress=listen,
            journal=journal, budget=budget, switch=switch,
        )  # fmt: skip
    path = chain.write(report)
    console.show(report, view.validate, json=json, yaml=yaml)
    first = report.first_divergence
    console.note(f"Next: day0 explain {first.code}   report: {path}" if first else f"Next: day0 run   report: {path}")
    return {"pass": 0, "fail": 1, "unknown": 2}[report.verdict]
