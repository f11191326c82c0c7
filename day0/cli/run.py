"""Ask the model something: text in, tokens out, with times and memory.

One prompt is one turn of a chat, through the release's template if it has one. Several prompts run as one batch. The answers go to
stdout, times and memory to stderr and run.yaml; --json and --yaml print the report instead.
"""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from day0.cli import options
from day0.spec.errors import Day0Error


def command(
    prompts: Annotated[list[str] | None, typer.Argument(metavar="[PROMPT]...", help="What to ask.")] = None,
    prompt_file: Annotated[Path | None, typer.Option("--prompt-file", help="Read one more prompt from a file, whole.")] = None,
    chat: Annotated[bool, typer.Option("--chat", help="Talk: read a line, answer, and so on; the end of input ends it.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Continue the text as it is, without the chat template.")] = False,
    model: options.ModelOption = None,
    max_new: options.MaxNew = None,
    temperature: options.Temperature = 0.0,
    top_k: options.TopK = 0,
    top_p: options.TopP = 1.0,
    min_p: options.MinP = 0.0,
    repetition_penalty: options.RepetitionPenalty = 1.0,
    seed: options.Seed = None,
    stop: options.Stop = None,
    executor: options.Executor = "native",
    device: options.Device = None,
    weights: options.Weights = None,
    profile: Annotated[bool, typer.Option("--profile/--no-profile", help="Measure the time of each operator.")] = True,
    machine: options.Machine = None,
    reports: options.Reports = options.REPORTS,
    json: options.Json = False,
    yaml: options.Yaml = False,
) -> int:
    """Answer on stdout; report in run.yaml."""
    from day0.spec.request import Sampling

    texts = [*(prompts or []), *([_content(prompt_file)] if prompt_file else [])]
    if chat and (texts or raw or json or yaml):
        raise Day0Error("--chat takes no prompt, and goes with none of --raw, --json and --yaml", hint="day0 run --chat")
    drawing = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
    sampling = Sampling(**drawing, repetition_penalty=repetition_penalty, seed=seed)
    chain, opening = _open(reports, model, machine, executor, device, weights)
    return _answer(chain, opening, None if chat else texts, raw, max_new, (sampling, tuple(stop or ())), profile, json, yaml)


def _open(reports: Path, model: Path | None, machine: str | None, *how: Any) -> Any:
    """The chain and the planned model: all that can be refused before weights are read."""
    from day0.stages.chain import Chain
    from day0.stages.machines import find_machine
    from day0.stages.opening import Opening

    chain = Chain.find(reports, model, find_machine(machine).name if machine else None)
    return chain, Opening.of(chain, *how)
