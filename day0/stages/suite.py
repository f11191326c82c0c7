"""A suite of questions: read, asked, and scored."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import ValidationError

from day0.spec.errors import Day0Error
from day0.spec.progress import Progress, silent
from day0.spec.reports.base import file_input
from day0.spec.reports.suite import SuiteScore, TaskScore, Wrong
from day0.spec.request import Sampling
from day0.spec.suite import FILE, Question, Suite
from day0.stages.answers import answer
from day0.stages.meter import Meter
from day0.stages.opening import Opened
from day0.stages.prompt import Prompt, Reader

LIMIT = 64 << 20  # bytes of a suite that are read
AT_ONCE = 64  # questions whose images are held
TOLD = 3  # wrong answers of a kind that are quoted
Z = 1.959964  # standard deviations that hold 95 % of a normal distribution


def beside(model: Path) -> Path | None:
    """The suite of a release, where it brings one."""
    file = model / FILE
    return file if file.is_file() else None


def read_suite(file: Path) -> Suite:
    """Day0Error where it is not one."""
    if not file.is_file():
        raise Day0Error("there is no such file", file)
    if file.stat().st_size > LIMIT:
        raise Day0Error(f"larger than {LIMIT >> 20} MiB", file)
    try:
        return Suite.model_validate(json.loads(file.read_bytes()))
    except ValidationError as error:
        wrong = error.errors()[0]
        place = ".".join(map(str, wrong["loc"])) or "the whole"
        raise Day0Error(f"not a suite: {place}: {wrong['msg']}", file, hint="docs/suites.md shows one") from None
    except (ValueError, RecursionError) as error:
        raise Day0Error(f"not valid JSON: {error}", file) from None


def examine(opened: Opened, file: Path, suite: Suite, progress: Progress = silent) -> SuiteScore:
    """Ask every question greedily; questions with images are left out where the plan takes none."""
    opening = opened.opening
    reader = Reader(opening.tokenizer, opening.context, max_new=suite.max_new, eye=opening.eye)
    asked = [question for question in suite.questions if opening.eye is not None or not question.images]
    meter, said = Meter(opened), list[str]()
    for first in range(0, len(asked), AT_ONCE):
        prompts = [read_prompt(reader, file, question) for question in asked[first : first + AT_ONCE]]
        said += [found.text.strip() for found in answer(opened, prompts, Sampling(), (), lambda _place, _output: None, meter)]
        progress(f"asking {opening.executor}", len(said), len(asked))
    left_out = len(suite.questions) - len(asked)
    wrong = list(_wrong(asked, said))
    return SuiteScore(
        by=opening.executor, suite=str(file), sha256=file_input(file).sha256, tasks=tasks(asked, said), left_out=left_out, wrong=wrong,
        seconds=round(meter.total, 3),
    )  # fmt: skip


def tasks(questions: Sequence[Question], said: Sequence[str]) -> list[TaskScore]:
    """Right answers of each kind."""
    asked = Counter(question.kind for question in questions)
    right = Counter(question.kind for question, text in zip(questions, said, strict=True) if text == question.answer.strip())
    return [task(kind, right[kind], count) for kind, count in asked.items()]


def task(kind: str, right: int, count: int) -> TaskScore:
    """With Wilson's interval (1927): it keeps within 0 and 1, and is honest for few questions."""
    share, spread = right / count, Z**2 / count
    middle = (share + spread / 2) / (1 + spread)
    half = Z / (1 + spread) * ((share * (1 - share) + spread / 4) / count) ** 0.5
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return TaskScore(kind=kind, questions=count, right=right, accuracy=round(share, 4), low=round(low, 4), high=round(high, 4))


def read_prompt(reader: Reader, file: Path, question: Question) -> Prompt:
    """A question as it is asked, with its images."""
    images, folder = [], file.parent.resolve()
    for name in question.images:
        image = (folder / name).resolve()
        if not image.is_relative_to(folder):
            raise Day0Error(f"the image {name!r} lies outside the folder of the suite", file)
        images.append(image)
    return reader.read(question.prompt, images)


def _wrong(questions: Sequence[Question], said: Sequence[str]) -> Iterator[Wrong]:
    told: Counter[str] = Counter()
    for question, text in zip(questions, said, strict=True):
        if text != question.answer.strip() and told[question.kind] < TOLD:
            told[question.kind] += 1
            yield Wrong(kind=question.kind, prompt=question.prompt, expected=question.answer, said=text)
