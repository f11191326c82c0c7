"""Suites of questions: asked, scored and reported, and refused where they are not suites."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from day0.spec.errors import Day0Error
from day0.spec.reports.run import RunReport
from day0.spec.suite import FILE
from day0.stages.chain import Chain
from day0.stages.suite import task
from tests.cli.conftest import Done

Day0 = Callable[..., Done]
RIGHT = [("facts", "What is the capital of France?", "The capital of France is Paris."), ("sums", "What is 2 + 3?", "2 + 3 = 5.")]
WRONG = ("facts", "What is the capital of Italy?", "Rome it is.")
MEASURED = {"by": "its authors", "tasks": [{"kind": "facts", "questions": 100, "right": 99, "accuracy": 0.99, "low": 0.95, "high": 1.0}]}


def write(folder: Path, **changes: Any) -> Path:
    questions: list[dict[str, Any]] = [dict(zip(("kind", "prompt", "answer"), row, strict=True)) for row in (*RIGHT, WRONG)]
    questions.append({"kind": "captions", "prompt": "What is it?", "answer": "A cat.", "images": ["cat.png"]})
    (folder / FILE).write_text(json.dumps({"max_new": 12, "questions": questions, "measured": [MEASURED], **changes}))
    return folder / FILE


def test_run_counts_right_answers(day0: Day0, mapped: Path, tmp_path: Path) -> None:
    done = day0("run", "--suite", write(tmp_path), "--reference")
    assert (done.code, done.out) == (0, "") and "1 of 2 (0.09–0.91)" in done.err
    report = yaml.safe_load((tmp_path / "reports/tiny-dsv3/this-machine/run.yaml").read_text())
    ours, theirs, measured = report["suites"]
    assert (report["answers"], ours["by"], theirs["by"], measured["by"]) == ([], "native", "community", "its authors")
    for score in (ours, theirs):
        assert {row["kind"]: (row["right"], row["questions"]) for row in score["tasks"]} == {"facts": (1, 2), "sums": (1, 1)}
        assert score["left_out"] == 1 and score["seconds"] > 0
        assert score["wrong"] == [{"kind": WRONG[0], "prompt": WRONG[1], "expected": WRONG[2], "said": "The capital of Italy is Rome."}]


def test_a_run_holds_as_long_as_its_suite(day0: Day0, mapped: Path, model: Path, tmp_path: Path) -> None:
    """The suite is an input like others, wherever it lies: not a file of another model, and its change makes the run stale."""
    file = write(tmp_path)
    assert day0("run", "--suite", file).code == 0
    chain = Chain.of(tmp_path / "reports", model)
    report = chain.read(RunReport)
    assert [Path(entry.path).name for entry in report.provenance.inputs].count(FILE) == 1
    file.write_text(file.read_text() + " ")
    with pytest.raises(Day0Error, match=f"stale: {file} has changed"):
        Chain.of(tmp_path / "reports", model).read(RunReport)


def test_a_suite_goes_with_prompts(day0: Day0, mapped: Path, tmp_path: Path) -> None:
    report = day0("run", RIGHT[0][1], "--suite", write(tmp_path), "--json").json
    assert [answer["text"] for answer in report["answers"]] == [RIGHT[0][2]] and len(report["suites"]) == 2
    assert report["times"]["total"] > 0


def test_adapt_asks_the_suite_beside_a_model(day0: Day0, model: Path, tmp_path: Path) -> None:
    write(model)
    done = day0("adapt", model, "--layer", "0", "--context", "128", "--batch", "2", "--no-serve")
    assert done.code == 0 and "2 of 3 questions right" in done.out
    suites = yaml.safe_load((tmp_path / "reports/tiny-dsv3/this-machine/run.yaml").read_text())["suites"]
    assert [score["by"] for score in suites] == ["native", "community", "its authors"]


# (right, questions) → 95 % interval; R. G. Newcombe, Statistics in Medicine 17 (1998) 857–872, table I, method 3
@pytest.mark.parametrize(
    ("right", "count", "low", "high"), [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)]
)
def test_intervals_are_wilsons(right: int, count: int, low: float, high: float) -> None:
    found = task("any", right, count)
    assert (found.low, found.high) == (low, high)
    turned = task("any", count - right, count)
    assert (turned.low, turned.high) == pytest.approx((1 - high, 1 - low))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not valid JSON: "), ("[" * 100_000, "not valid JSON: "), ("[]", "not a suite: the whole: "), ("{}", "not a suite: questions: "),
        ('{"questions": [{"kind": "a", "prompt": "b"}]}', "not a suite: questions.0.answer: "), ('{"questions": []}', "not a suite: questions: "),
        ('{"questions": [{"kind": "a", "prompt": " ", "answer": "c"}]}', "the prompt is empty"),
        ('{"questions": [{"kind": "a", "prompt": "b", "answer": "c"}], "max_new": 4000}', "the prompt has "),
    ],
)  # fmt: skip
def test_what_is_no_suite_is_refused(day0: Day0, mapped: Path, tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "s.json").write_text(text)
    done = day0("run", "--suite", "s.json")
    assert done.code == 2 and problem in done.error


def test_where_a_suite_cannot_be_asked(day0: Day0, mapped: Path, tmp_path: Path) -> None:
    assert day0("run", "--suite", "none.json").error == "none.json: there is no such file"
    assert day0("run", "--reference", "Hi").code == 2
    assert day0("run", "--chat", "--suite", write(tmp_path)).code == 2
