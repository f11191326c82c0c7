"""`day0 score`: logits of given tokens, for comparisons token by token, and the perplexity of a text.

Needs no chain: it plans and maps for exactly the given lengths. Leaves a safetensors file when one is asked for.
Exit codes of the command: 0 done; 1 it does not fit or an operator is missing; 2 it could not work.
"""

import json
import math
import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from day0.checkpoint.folder import Checkpoint
from day0.checkpoint.source import here
from day0.community.executor import Community
from day0.engine.batch import Engine
from day0.engine.release import Release
from day0.engine.score import score as engine_score
from day0.engine.text import Tokenizer
from day0.spec.dtype import compute_dtype
from day0.spec.errors import Day0Error
from day0.spec.picture import Placed
from day0.spec.progress import Progress, silent
from day0.spec.record import record
from day0.spec.reports.inspect import InspectReport
from day0.spec.reports.score import ScoreReport, SequenceRow
from day0.spec.workload import Residency, Workload
from day0.stages.inspect import inspect
from day0.stages.machines import find_machine
from day0.stages.map_ops import map_ops
from day0.stages.opening import ExecutorName, Opened, Opening, planned
from day0.stages.pictures import hang, open_eye, read_pictures
from day0.stages.plan_memory import plan_memory

Ids = Sequence[int]
LARGEST = 700.0  # nats; the exponential of more is no number
LIMIT = 64 << 20  # bytes of a file of ids or text that is read at all


@record
class Manner:
    """How tokens are fed."""

    executor: ExecutorName = "native"  #: whose code runs
    dtype: str | None = None  #: type to compute in; None: the release's
    device: str | None = None  #: backend; None: this machine's
    weights: Residency = "resident"  #: kept in memory, or read layer by layer
    batch: int | None = None  #: sequences at once; None: all
    chunk: int | None = None  #: tokens of a sequence that are read at a time; None: all at once
    decode_from: int | None = None  #: place from which tokens are read one by one; None: nowhere


def score(
    model: Path, sequences: Sequence[Ids], manner: Manner, out: Path | None = None, progress: Progress = silent, images: Sequence[Path] = ()
) -> ScoreReport:
    """Run `sequences`, `manner.batch` at once; write float32 `logits.<i>` [tokens, W] to `out`.

    `images` are files, for the image placeholders of the sequences in their order (see `pictures.hang`).
    """
    Checkpoint.open(here(model)).require_sound()
    inspected = inspect(model)
    _require_tokens(sequences, inspected.model.vocab)
    size, placed = manner.batch or len(sequences), list[tuple[Placed, ...]]([()] * len(sequences))
    if images:
        sequences, placed = _with_images(model, sequences, images, manner.executor)
    largest = max((one.picture.embeddings for row in placed for one in row), default=0)
    opened = (opening := _open(inspected, size, max(map(len, sequences)), manner, largest)).start(progress=progress)
    start = time.perf_counter()
    rows: list[SequenceRow] = []
    kept: dict[str, Tensor] = {}
    for first in range(0, len(sequences), size):
        group = sequences[first : first + size]
        for tokens, logits_TW in zip(group, _logits(opened, group, manner, placed[first : first + size]), strict=True):
            if out is not None:
                kept[f"logits.{len(rows)}"] = logits_TW
            rows.append(SequenceRow(tokens=len(tokens), loss=_loss(logits_TW, tokens)))
        progress("scoring", len(rows), len(sequences))
    seconds = time.perf_counter() - start
    if out is not None:
        _write(kept, out)
    return ScoreReport(
        model=opening.model,
        executor=manner.executor,
        device=str(opening.device),
        dtype=opening.dtype,
        chunk=manner.chunk,
        decode_from=manner.decode_from,
        out=None if out is None else str(out),
        sequences=rows,
        perplexity=_perplexity(rows),
        seconds=seconds,
    )


def read_ids(path: Path) -> list[list[int]]:
    """Token ids from a JSON file: a list of lists of whole numbers."""
    try:
        data = json.loads(_content(path))
    except (ValueError, RecursionError) as error:
        raise Day0Error(f"not valid JSON: {error}", path, hint="[[1, 2, 3], [4, 5]]") from None
    rows = data if isinstance(data, list) else [data]
    if not rows or not all(isinstance(row, list) and all(type(token) is int for token in row) for row in rows):
        raise Day0Error("expected a list of lists of token ids", path, hint="[[1, 2, 3], [4, 5]]")
    return rows


def read_windows(path: Path, model: Path, window: int | None) -> list[list[int]]:
    """A text as windows of tokens that follow each other; each is scored on its own, as far as the model's context reaches."""
    try:
        tokens = Tokenizer.open(model).encode(_content(path).decode(), special=True)
    except UnicodeDecodeError:
        raise Day0Error("not text in UTF-8", path) from None
    if len(tokens) < 2:
        raise Day0Error("the text has fewer than two tokens", path, hint="nothing can be predicted")
    size = window or min(inspect(model).model.context or 2048, 2048)
    return [tokens[start : start + size] for start in range(0, len(tokens), size)]


def _content(path: Path) -> bytes:
    if not path.is_file():
        raise Day0Error("there is no such file", path)
    if path.stat().st_size > LIMIT:
        raise Day0Error(f"larger than {LIMIT >> 20} MiB", path)
    return path.read_bytes()


def _require_tokens(sequences: Sequence[Ids], vocab: int | None) -> None:
    for index, tokens in enumerate(sequences):
        if not tokens:
            raise Day0Error(f"sequence {index} is empty", hint="give each at least one token")
        wrong = next((token for token in tokens if token < 0 or (vocab is not None and token >= vocab)), None)
        if wrong is not None:
            problem = f"sequence {index}: token {wrong} is outside the vocabulary of {vocab}"
            raise Day0Error(problem, hint="does the tokenizer belong to this model?")


def _with_images(
    model: Path, sequences: Sequence[Ids], images: Sequence[Path], executor: ExecutorName
) -> tuple[Sequence[Ids], list[tuple[Placed, ...]]]:  # fmt: skip
    if executor == "community":
        raise Day0Error("the community executor is not given images", images[0], hint="leave out --executor")
    eye = open_eye(Release.open(model))
    return hang(sequences, read_pictures(images, eye), eye.encoder.token)


def _open(inspected: InspectReport, batch: int, longest: int, manner: Manner, image_tokens: int) -> Opening:
    """Planned for exactly these lengths."""
    if manner.executor == "community":
        said = inspected.model
        dtype = compute_dtype(manner.dtype or said.dtype or "float32")
        backend = find_machine(manner.device).backend
        return Opening(folder=here(said.folder), model=said.name, machine=backend, backend_name=backend, dtype=dtype, context=longest)
    machine = find_machine(manner.device)
    chunk = batch * min(manner.chunk or longest, longest)
    workload = Workload(
        context=longest, batch=batch, dtype=manner.dtype, weights=manner.weights, chunk=chunk, vision=image_tokens > 0,
        image_tokens=image_tokens or None,
    )  # fmt: skip
    plan = plan_memory(inspected, machine, workload)
    return planned(plan, map_ops(inspected, plan, machine))


def _logits(opened: Opened, sequences: Sequence[Ids], manner: Manner, images: Sequence[Sequence[Placed]]) -> Iterable[Tensor]:
    engine = opened.engine
    if isinstance(engine, Community):
        return engine.score(sequences, manner.chunk, manner.decode_from)
    assert isinstance(engine, Engine)
    return engine_score(engine.forward, engine.state, sequences, chunk=manner.chunk, decode_from=manner.decode_from, images=images)


def _loss(logits_TW: Tensor, tokens: Sequence[int]) -> float | None:
    if len(tokens) < 2:
        return None
    targets_T = torch.tensor(list(tokens[1:]))
    return torch.nn.functional.cross_entropy(logits_TW[:-1].float().cpu(), targets_T).item()


def _perplexity(rows: Sequence[SequenceRow]) -> float | None:
    scored = [(row.loss, row.tokens - 1) for row in rows if row.loss is not None]
    count = sum(tokens for _, tokens in scored)
    mean = sum(loss * tokens for loss, tokens in scored) / count if count else math.inf
    return math.exp(mean) if mean < LARGEST else None


def _write(tensors: dict[str, Tensor], out: Path) -> None:
    """Beside the file first, then renamed."""
    out.parent.mkdir(parents=True, exist_ok=True)
    beside = out.with_name(f".{out.name}.{os.getpid()}")
    save_file({name: tensor.float().cpu().contiguous() for name, tensor in tensors.items()}, beside)
    os.replace(beside, out)
