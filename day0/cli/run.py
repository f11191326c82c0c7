"""Ask the model something: text in, tokens out, with times and memory.

One prompt is one turn of a chat, through the release's template if it has one. Several prompts run as one batch. The answers go to
stdout, times and memory to stderr and run.yaml; --json and --yaml print the report instead. A request that fails leaves a bundle for
`day0 replay`. With DAY0_ASSERT=1 the first operator call with a wrong shape or range ends the run.
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
    images: Annotated[list[Path] | None, typer.Option("--image", help="Image that the prompt is about; may be given several times.")] = None,
    suite: Annotated[Path | None, typer.Option("--suite", help="Ask the questions of a file too, and count the right answers.")] = None,
    reference: Annotated[bool, typer.Option("--reference", help="Ask the suite of transformers as well.")] = False,
    chat: Annotated[bool, typer.Option("--chat", help="Talk: read a line, answer, and so on; the end of input ends it.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Continue the text as it is, without the chat template.")] = False,
    model: options.ModelOption = None,
    max_new: options.MaxNew = None,
    temperature: options.Temperature = 0.0,
    top_k: options.TopK = 0,
    top_p: options.TopP = 1.0, min_p: options.MinP = 0.0,
    repetition_penalty: options.RepetitionPenalty = 1.0,
    seed: options.Seed = None,
    stop: options.Stop = None,
    executor: options.Executor = "native",
    device: options.Device = None,
    weights: options.Weights = None,
    profile: Annotated[bool, typer.Option("--profile/--no-profile", help="Measure the time of each operator.")] = True,
    check: Annotated[bool, typer.Option("--self-check", help="First compare every layer as it runs with one on weights read another way.")] = False,
    record: options.Record = None,
    machine: options.Machine = None,
    reports: options.Reports = options.REPORTS,
    json: options.Json = False,
    yaml: options.Yaml = False,
) -> int:
    """Answer on stdout; report in run.yaml."""
    from day0.spec.request import Sampling

    if (chat and suite) or (reference and not suite):
        raise Day0Error("--suite does not go with --chat, and --reference needs it", hint="day0 run --suite FILE --reference")
    texts = [*(prompts or []), *([_content(prompt_file)] if prompt_file else [])]
    if chat and (texts or raw or json or yaml):
        raise Day0Error("--chat takes no prompt, and goes with none of --raw, --json and --yaml", hint="day0 run --chat")
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, repetition_penalty=repetition_penalty, seed=seed)
    chain, opening = _open(reports, model, machine, executor, device, weights)
    how = (sampling, tuple(stop or ()), _examination(chain, suite, reference) if suite else None)
    batches, talk = ([], None) if suite and not texts else _prompts(opening, None if chat else texts, images or [], raw, max_new)
    return _answer(chain, opening, batches, talk, how, profile, check, record, json, yaml)


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise Day0Error("not text in UTF-8", path) from None


def _open(reports: Path, model: Path | None, machine: str | None, *how: Any) -> Any:
    """The chain and the model: all that can be refused before weights are read."""
    from day0.stages.chain import Chain
    from day0.stages.machines import find_machine
    from day0.stages.opening import open_chain

    chain = Chain.find(reports, model, find_machine(machine).name if machine else None)
    return chain, open_chain(chain, *how)


def _prompts(opening: Any, texts: list[str] | None, images: list[Path], raw: bool, max_new: int | None) -> Any:
    """Batches of prompts, each about all images; without texts, those of a conversation on stdin, and the conversation."""
    from day0.stages.prompt import EXAMPLE, Conversation, Reader

    reader = Reader(opening.tokenizer, opening.context, raw=raw, max_new=max_new, eye=opening.eye)
    if texts is None:
        talk = Conversation()
        return reader.turns(sys.stdin, talk, images), talk
    if not texts:
        raise Day0Error("there is no prompt", hint=EXAMPLE)
    return [[reader.read(text, images) for text in texts]], None


def _examination(chain: Any, file: Path, reference: bool) -> Any:
    from day0.stages.opening import open_chain
    from day0.stages.run import Examination
    from day0.stages.suite import read_suite

    return Examination(file=file, suite=read_suite(file), reference=open_chain(chain, "community") if reference else None)


def _checked(opened: Any, tokens: Any) -> Any:
    """Compare before anything is answered, and show how far that is."""
    from day0.render.progress import progress
    from day0.stages.self_check import self_check

    with progress() as listen:
        return self_check(opened, tokens, listen)


def _answer(
    chain: Any, opening: Any, batches: Any, talk: Any, how: tuple[Any, Any, Any], profile: bool, check: bool, record: Path | None, json: bool,
    yaml: bool,
) -> int:  # fmt: skip
    """Read the weights, answer, write the report."""
    from day0.render import console
    from day0.render.progress import progress
    from day0.render.run import Answers, metrics, silent, speaker
    from day0.stages.incident import Incidents
    from day0.stages.run import run

    incidents = Incidents(folder=record or chain.folder / "incidents", every=record is not None, tell=console.note)
    with progress() as listen:
        opened = opening.start(profile=profile, progress=listen, incidents=incidents)
    quiet = json or yaml or not batches
    said = silent if quiet else Answers([prompt.text for prompt in batches[0]]).hear if talk is None else speaker(talk.hear)
    sampling, stop, examination = how
    report = run(opened, batches, sampling, stop, said, examination, _checked if check else None)
    path = chain.write(report)
    if json or yaml:
        console.show(report, metrics, json=json, yaml=yaml)
    else:
        console.draw(metrics(report), sys.stderr)
    console.note(f"Next: day0 serve   report: {path}" if report.executor == "native" else f"report: {path}")
    return 0 if report.verdict == "answered" else 1
