"""Say whether a model fits a machine, and what lies where.

The exit code is 1 when it does not fit. The report is what `run` and `serve` obey.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from day0.cli import options

if TYPE_CHECKING:
    from day0.spec.machine import Machine
    from day0.spec.reports.inspect import InspectReport
    from day0.spec.reports.plan_memory import PlanMemoryReport
    from day0.spec.workload import Workload

PageSize = Annotated[int, typer.Option("--page-size", min=1, max=65536, help="Tokens of a page of state.")]
Chunk = Annotated[int, typer.Option("--chunk", min=1, help="Tokens of prompts that one step reads at the most.")]
KvDtype = Annotated[str | None, typer.Option("--kv-dtype", metavar="TYPE", help="State in bf16, fp8 or int8; default: the compute type.")]
Engine = Annotated[str, typer.Option("--engine", metavar="NAME", help="Whose layout of memory: day0, vllm, sglang.")]
Tp = Annotated[int | None, typer.Option("--tp", min=1, help="Ranks that cut heads; default: what fits best.")]
Ep = Annotated[int | None, typer.Option("--ep", min=1, help="Ranks that share the routed experts.")]
Pp = Annotated[int | None, typer.Option("--pp", min=1, help="Stages of the pipeline.")]
Dp = Annotated[int | None, typer.Option("--dp", min=1, help="Copies of attention, each with its own sequences.")]
Cp = Annotated[int | None, typer.Option("--cp", min=1, help="Ranks of tp that share the tokens of replicated state.")]
Redundant = Annotated[int, typer.Option("--redundant-experts", min=0, help="Experts held a second time, so that ranks come out even.")]
Mtp = Annotated[bool, typer.Option("--with-mtp/--no-mtp", help="Load extra prediction layers; default: no.")]
Images = Annotated[int, typer.Option("--images", min=1, help="Images that another engine encodes at once, where towers are loaded.")]
Utilisation = Annotated[float | None, typer.Option("--utilisation", min=0.05, max=1, help="Share of a card that may be filled.")]
HostMemory = Annotated[float | None, typer.Option("--host-memory", min=0, metavar="GIB", help="Memory of the host that weights may take.")]
WhatIf = Annotated[list[str] | None, typer.Option("--what-if", metavar="CHANGES", help="Plan again with context=…,batch=…,cards=… changed.")]
Csv = Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Write the frontier of context and batch.")]
Log = Annotated[Path | None, typer.Option("--log", metavar="FILE", help="Compare with the start-up log of vLLM or SGLang.")]


def command(
    model: options.OptionalModel = None, machine: options.Machine = None, context: options.Context = None, batch: options.Batch = None,
    dtype: options.Dtype = None, weights: options.Weights = None, page_size: PageSize = 16, chunk: Chunk = 512, kv_dtype: KvDtype = None,
    engine: Engine = "day0", tp: Tp = None, ep: Ep = None, pp: Pp = None, dp: Dp = None, cp: Cp = None, redundant: Redundant = 0,
    mtp: Mtp = False, vision: options.Vision = None, images: Images = 1, image_tokens: options.ImageTokens = None, utilisation: Utilisation = None,
    host_memory: HostMemory = None, changes: WhatIf = None, csv: Csv = None, log: Log = None,
    reports: options.Reports = options.REPORTS, json: options.Json = False, yaml: options.Yaml = False,
) -> int:  # fmt: skip
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
        chunk=chunk, kv_dtype=kv_dtype, engine=engine, tp=tp, ep=ep, pp=pp, dp=dp, cp=cp, redundant=redundant, prediction=mtp,
        vision=vision, images=images, image_tokens=image_tokens, utilisation=utilisation,
        host_memory=None if host_memory is None else int(host_memory * (1 << 30)),
    )  # fmt: skip
    chain = Chain.find(reports, model, target.name)
    inspected = chain.read(InspectReport)
    report = plan_memory(inspected, target, workload)
    compare(report, inspected, target, workload, changes or [], csv, log)
    path = chain.write(report)
    console.show(report, view.plan_memory, json=json, yaml=yaml)
    fits = report.verdict == "fits"
    console.note(f"Next: day0 map-ops   report: {path}" if fits else f"report: {path}")
    return 0 if fits else 1


def compare(
    report: "PlanMemoryReport", inspected: "InspectReport", target: "Machine", workload: "Workload", changes: list[str], csv: Path | None,
    log: Path | None,
) -> None:  # fmt: skip
    """Add what other workloads would change and what an engine's log says; write the frontier."""
    from day0.render.compared import frontier
    from day0.spec.errors import Day0Error
    from day0.stages.calibrate import calibrate
    from day0.stages.what_if import what_if

    report.what_if = [what_if(inspected, target, workload, text) for text in changes]
    report.calibration = calibrate(report, log) if log else []
    if csv:
        try:
            csv.write_text(frontier(report), encoding="utf-8")
        except OSError as error:
            raise Day0Error(f"the frontier cannot be written: {error.strerror}", csv) from None
