"""Say whether a model fits a machine, and what lies where.

The exit code is 1 when it does not fit. The report is what `run` and `serve` obey.
"""

from typing import Annotated

import typer

from day0.cli import options

PageSize = Annotated[int, typer.Option("--page-size", min=1, max=65536, help="Tokens of a page of state.")]
Chunk = Annotated[int, typer.Option("--chunk", min=1, help="Tokens of prompts that one step reads at the most.")]


def command(
    model: options.OptionalModel = None,
    machine: options.Machine = None,
    context: options.Context = None,
    batch: options.Batch = None,
    dtype: options.Dtype = None,
    weights: options.Weights = None,
    vision: options.Vision = False,
    image_patches: options.ImagePatches = None,
    page_size: PageSize = 16,
    chunk: Chunk = 512,
    reports: options.Reports = options.REPORTS,
    json: options.Json = False,
    yaml: options.Yaml = False,
) -> int:
    """Plan, write the report, show it."""
    from day0.render import console
    from day0.render import plan_memory as view
    from day0.spec.reports.inspect import InspectReport
    from day0.spec.workload import Workload, token_count
    from day0.stages.chain import Chain
    from day0.stages.machines import find_machine
    from day0.stages.plan_memory import plan_memory

    target = find_machine(machine)
    workload = Workload(
        context=token_count(context) if context else None, batch=batch, dtype=dtype, weights=weights or "resident", page_size=page_size,
        chunk=chunk, vision=vision, image_patches=image_patches,
    )  # fmt: skip
    chain = Chain.find(reports, model, target.name)
    report = plan_memory(chain.read(InspectReport), target, workload)
    path = chain.write(report)
    console.show(report, view.plan_memory, json=json, yaml=yaml)
    fits = report.verdict == "fits"
    console.note(f"Next: day0 map-ops   report: {path}" if fits else f"report: {path}")
    return 0 if fits else 1
