"""Compute the logits of given tokens, or the perplexity of a text.

Token-id lists run as one batch; `logits.<i>` of the output is float32 [tokens, vocabulary]. No earlier stage is needed.
"""

from pathlib import Path
from typing import Annotated

import typer

from day0.cli import options
from day0.spec.errors import Day0Error


def command(
    model: options.ModelArgument,
    ids: Annotated[Path | None, typer.Option("--ids", help="JSON file: [[1, 2, 3], [4, 5]].")] = None,
    text: Annotated[Path | None, typer.Option("--text", help="Text file to score instead of token ids.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Safetensors file to write the logits to.")] = None,
    executor: options.Executor = "native",
    dtype: options.Dtype = None,
    device: options.Device = None,
    weights: options.Weights = None,
    chunk: Annotated[int | None, typer.Option("--chunk", min=1, help="Tokens of a sequence read at a time; default: all.")] = None,
    decode_from: Annotated[int | None, typer.Option("--decode-from", min=0, help="Place from which tokens are read one by one.")] = None,
    window: Annotated[int | None, typer.Option("--window", min=2, help="Tokens of a piece of --text; default: up to 2048.")] = None,
    images: Annotated[list[Path] | None, typer.Option("--images", help="Image files, for the image placeholders in --ids, in their order.")] = None,
    more: Annotated[list[Path] | None, typer.Argument(metavar="[IMAGE]...", help="More files for --images.")] = None,
    json: options.Json = False,
    yaml: options.Yaml = False,
) -> int:
    """Score, write the logits, show the losses."""
    if (ids is None) == (text is None):
        raise Day0Error("give either --ids or --text", hint="day0 score MODEL --ids ids.json --out logits.safetensors")
    if more and not images:
        raise Day0Error("one model at a time", more[0], hint="image files come after --images")
    if images and ids is None:
        raise Day0Error("--images goes with --ids", images[0], hint="a text has no place for an image")
    if window and text is None:
        raise Day0Error("--window goes with --text", hint="token ids are taken as they are")
    from day0.render import console
    from day0.render import score as view
    from day0.render.progress import progress
    from day0.stages.score import Manner, read_ids, read_windows, score

    feeding = {"batch": None if ids else 1, "chunk": chunk, "decode_from": decode_from}
    manner = Manner(executor=executor, dtype=dtype, device=device, weights=weights or "resident", **feeding)
    sequences = read_ids(ids) if ids else read_windows(text or Path(), model, window)
    with progress() as listen:
        report = score(model, sequences, manner, out, listen, [*(images or []), *(more or [])])
    console.show(report, view.score, json=json, yaml=yaml)
    return 0
