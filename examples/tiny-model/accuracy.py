"""How often a release answers a suite rightly, in float32, through day0's engine and through transformers with decoded weights."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from day0.render import console
from day0.render.run import suites
from day0.spec.reports.suite import SuiteScore, by_kind
from day0.spec.suite import Suite
from day0.spec.workload import Workload
from day0.stages.inspect import inspect
from day0.stages.machines import find_machine
from day0.stages.map_ops import map_ops
from day0.stages.opening import Opened, Opening, planned
from day0.stages.plan_memory import plan_memory
from day0.stages.prompt import Prompt, Reader
from day0.stages.suite import examine, read_prompt, read_suite, tasks

CONTEXT, BATCH = 256, 64


def measure(folder: Path, suite: Path, name: str) -> Iterator[SuiteScore]:
    """By day0's engine, then by transformers; `name` is the model's in the scores."""
    inspected, machine, questions = inspect(folder), find_machine("cpu"), read_suite(suite)
    plan = plan_memory(inspected, machine, Workload(context=CONTEXT, batch=BATCH, dtype="float32", vision=True))
    ours = planned(plan, map_ops(inspected, plan, machine))
    score = examine(ours.start(), suite, questions)
    yield SuiteScore(by=f"{name}, {score.by}", tasks=score.tasks)
    theirs = Opening(folder=folder, model=ours.model, machine="cpu", backend_name="cpu", dtype="float32", context=CONTEXT, sees=True)
    yield SuiteScore(by=f"{name}, {theirs.executor}", tasks=tasks(questions.questions, forced(theirs.start(), suite, questions)))


def forced(opened: Opened, file: Path, suite: Suite) -> list[str]:
    """The right answer to each question, or nothing where greedy transformers would leave it.

    It says an answer exactly where each token of it is the best one after those before: one forward pass, shared by questions whose
    prompt and answer have equal lengths, instead of one for each token.
    """
    opening = opened.opening
    reader, end = Reader(opening.tokenizer, opening.context, max_new=suite.max_new, eye=opening.eye), min(opening.tokenizer.eos)
    alike: dict[tuple[int, int, int], list[tuple[int, Prompt, list[int]]]] = defaultdict(list)
    for place, question in enumerate(suite.questions):
        prompt, answer = read_prompt(reader, file, question), [*opening.tokenizer.encode(question.answer), end]
        alike[len(prompt.tokens), len(answer), len(prompt.images)].append((place, prompt, answer))
    said = [""] * len(suite.questions)
    for rows in alike.values():
        for first in range(0, len(rows), BATCH):
            part = rows[first : first + BATCH]
            right = followed(opened, [(prompt, answer) for _, prompt, answer in part])
            for (place, _, _), whole in zip(part, right, strict=True):
                said[place] = suite.questions[place].answer if whole else ""
    return said


@torch.no_grad()
def followed(opened: Opened, rows: Sequence[tuple[Prompt, list[int]]]) -> list[bool]:
    """Whether the best tokens after each prompt are those of its answer; all of equal lengths."""
    ids = torch.tensor([[*prompt.tokens, *answer] for prompt, answer in rows])
    views = [view for prompt, _ in rows for image in prompt.images for view in image.picture.views]
    media = {}
    if views:
        media["pixel_values"] = torch.cat([torch.from_numpy(view.patches) for view in views])
        media["image_grid_thw"] = torch.tensor([[1, *view.grid] for view in views])
        media["mm_token_type_ids"] = (ids == rows[0][0].images[0].picture.token).int()
    start = len(rows[0][0].tokens)
    best = opened.engine.reference.model(input_ids=ids, use_cache=False, **media).logits.argmax(-1)  # type: ignore[attr-defined]
    return (best[:, start - 1 : -1] == ids[:, start:]).all(-1).tolist()


def lost(before: Sequence[SuiteScore], after: Sequence[SuiteScore]) -> dict[str, float]:
    """Kind → the most accuracy that went, in any executor, on the same questions; below zero where all gained."""
    kinds = zip(by_kind(before).items(), by_kind(after).values(), strict=True)
    return {kind: max(b.accuracy - a.accuracy for b, a in zip(old, new, strict=True) if b and a) for (kind, old), new in kinds}


def show(scores: Sequence[SuiteScore]) -> None:
    """One row for each kind of question."""
    console.draw(suites(scores))
