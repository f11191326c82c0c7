"""Run the whole chain on a model, until a stage says no.

The exit code is 1 when one does. Every stage leaves its report, as if it had been called alone; a page, index.html, shows them all.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from day0.cli import options
from day0.spec.errors import Day0Error
from day0.spec.reports import CHAIN

Layers = Annotated[str, typer.Option("--layer", metavar="N|A-B|all", help="Layers that are validated.")]
Question = Annotated[str, typer.Option("--question", help="What the model is asked.")]
Serve = Annotated[bool, typer.Option("--serve/--no-serve", help="Start the service too, and ask it over HTTP.")]


def command(
    model: options.ModelArgument,
    machine: options.Machine = None,
    context: options.Context = None,
    batch: options.Batch = None,
    dtype: options.Dtype = None,
    weights: options.Weights = None,
    vision: options.Vision = None,
    image_tokens: options.ImageTokens = None,
    layer: Layers = "all",
    question: Question = "What is the capital of France?",
    serve: Serve = True,
    reports: options.Reports = options.REPORTS,
    json: options.Json = False,
    yaml: options.Yaml = False,
) -> int:
    """Adapt, and say how far it went."""
    from day0.spec.workload import Workload, token_count
    from day0.stages.adapt import Wanted
    from day0.stages.chain import Chain
    from day0.stages.machines import find_machine

    target = find_machine(machine)
    length = token_count(context) if context else None
    workload = Workload(
        context=length, batch=batch, dtype=dtype, weights=weights or "resident", vision=vision, image_tokens=image_tokens
    )  # fmt: skip
    wanted = Wanted(released=model, machine=target, workload=workload, layers=layer, question=question, serve=serve)
    return _adapt(Chain.of(reports, model, target.name), wanted, json, yaml)


def _adapt(chain: Any, wanted: Any, json: bool, yaml: bool) -> int:
    """Show each stage's answer as it comes, then the verdict and what comes next."""
    from day0.render import adapt as view
    from day0.render import console
    from day0.render.progress import progress
    from day0.stages.adapt import adapt

    stages: list[str] = []

    def hear(report: Any, row: Any) -> None:
        stages.append(row.stage)
        listen.clear()
        if not (json or yaml):
            console.draw(view.line(report, row), wrap=False)
            if not row.yes:
                console.draw(view.why(report), wrap=False)

    try:
        with progress(quiet=True) as listen:
            report = adapt(chain, wanted, hear, listen)
    except Day0Error as error:
        if stages:
            console.note(f"page: {_page(chain, stages, {CHAIN[len(stages)]: error})}")
        raise
    console.show(report, view.adapt, json=json, yaml=yaml)
    done = report.verdict == "adapted"
    page = _page(chain, stages, {})
    console.note(f"Next: day0 serve   page: {page}" if done else f"report: {report.stages[-1].path}   page: {page}")
    return 0 if done else 1


def _page(chain: Any, stages: list[str], refused: dict[str, Day0Error]) -> Path:
    """Write the page of the stages that ran, and of the one that could not."""
    from day0.render.page import NAME, page
    from day0.stages.conclusion import gather

    return chain.lay(NAME, page(gather(chain, stages, refused)))  # type: ignore[no-any-return]
