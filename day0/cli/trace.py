"""Write down what one pass computes, block by block; `day0 diff` compares two such traces.

Runs a layer's weights at a time, by day0's engine or by transformers. The exit code is 1 when some value is NaN or infinite.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from day0.cli import options
from day0.spec.errors import Day0Error

Ids = Annotated[str | None, typer.Option("--ids", metavar="N,N,…", help="Token ids of the sequence.")]
PromptText = Annotated[str | None, typer.Option("--prompt", metavar="TEXT", help="Text of the sequence, taken as it is.")]
Layers = Annotated[str, typer.Option("--layer", "--layers", metavar="N|A-B|all", help="Layers to keep; several with commas.")]
Full = Annotated[bool, typer.Option("--full", help="Keep all values instead of a sample of each tensor.")]
Limit = Annotated[int, typer.Option("--limit", min=1, metavar="MIB", help="Most that is kept.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Folder to write; default: trace-EXECUTOR-TYPE beside the reports.")]


def command(
    model: options.OptionalModel = None,
    ids: Ids = None,
    prompt: PromptText = None,
    layers: Layers = "all",
    executor: options.Executor = "native",
    dtype: options.Dtype = None,
    full: Full = False,
    limit: Limit = 1024,
    out: Out = None,
    machine: options.Machine = None,
    reports: options.Reports = options.REPORTS,
    json: options.Json = False,
    yaml: options.Yaml = False,
) -> int:
    """Trace, write, show."""
    from day0.render import console
    from day0.render import trace as view
    from day0.render.progress import progress
    from day0.spec.dtype import compute_dtype
    from day0.spec.reports.inspect import InspectReport
    from day0.spec.reports.map_ops import MapOpsReport
    from day0.spec.reports.plan_memory import PlanMemoryReport
    from day0.stages.chain import Chain
    from day0.stages.machines import find_machine
    from day0.stages.trace import bench_of, trace
    from day0.stages.validate import pick

    chain = Chain.find(reports, model, find_machine(machine).name if machine else None)
    before = chain.read(InspectReport), chain.read(PlanMemoryReport), chain.read(MapOpsReport)
    own = compute_dtype(dtype or before[1].workload.dtype)
    bench = bench_of(*before, own)
    folder, tokens = out or chain.folder / f"trace-{executor}-{own}", read(bench.release, ids, prompt)
    chosen = pick(layers, len(bench.release.model.layers))
    with progress() as listen:
        report = trace(bench, bench.release.name, tokens, executor, chosen, folder, full=full, limit=limit << 20, progress=listen)
    report.write(folder / "trace.yaml")
    console.show(report, view.trace, json=json, yaml=yaml)
    console.note(f"Next: day0 diff {folder} ANOTHER   values: {folder / 'trace.safetensors'}")
    return 0 if report.verdict == "finite" else 1


def read(release: Any, ids: str | None, prompt: str | None) -> list[int]:
    """Token ids that were given as numbers or as text; those of `validate` where neither was."""
    from day0.engine.text import Tokenizer
    from day0.stages.validate import prompt as usual

    model, folder = release.model, release.folder
    if ids is not None and prompt is not None:
        raise Day0Error("--ids and --prompt exclude each other")
    if prompt is not None:
        found = Tokenizer.open(folder).encode(prompt)
    elif ids is not None:
        words = [word.strip() for word in ids.split(",")]
        if not all(word.isdecimal() and len(word) < 10 for word in words):
            raise Day0Error(f"cannot read token ids {ids[:60]!r}", hint="numbers with commas: --ids 1,2,3")
        found = [int(word) for word in words]
    else:
        found = usual(release, min(64, model.context))
    if not found or not all(token < model.vocab for token in found):
        raise Day0Error(f"a token id is outside the vocabulary of {model.vocab}" if found else "the prompt is empty")
    if len(found) > model.context:
        raise Day0Error(f"{len(found)} tokens are more than the model's context of {model.context}")
    return found
