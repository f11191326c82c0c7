"""Answers counted by one forward pass each are those that transformers gives token by token."""

import json
from pathlib import Path

import pytest

pytest.importorskip("PIL")
pytest.importorskip("transformers")

from tests.examples.conftest import MODEL


def test_forced_answers_are_the_greedy_ones(tmp_path: Path) -> None:
    from accuracy import CONTEXT, forced
    from suite import write

    from day0.stages.opening import Opening
    from day0.stages.suite import examine, read_suite

    file = write(tmp_path, 2, 7)
    told = json.loads(file.read_text())
    told["questions"] += [
        {"kind": "wrong", "prompt": "What is the capital of France?", "answer": "The capital of France is Rome."},
        {"kind": "cut", "prompt": "What is the capital of France?", "answer": "The capital of France"},
    ]
    file.write_text(json.dumps(told))
    opening = Opening(folder=MODEL, model="m", machine="cpu", backend_name="cpu", dtype="float32", context=CONTEXT, sees=True)
    opened, suite = opening.start(), read_suite(file)
    said = forced(opened, file, suite)
    greedy = examine(opened, file, suite)
    right: dict[str, int] = {}
    for question, answer in zip(suite.questions, said, strict=True):
        right[question.kind] = right.get(question.kind, 0) + (answer == question.answer)
    assert right == {task.kind: task.right for task in greedy.tasks}
    assert right["wrong"] == right["cut"] == 0 and right["facts"] == 2


def test_what_a_release_lost() -> None:
    from accuracy import lost

    from day0.spec.reports.suite import SuiteScore
    from day0.stages.suite import task

    def scores(*right: int) -> list[SuiteScore]:
        return [SuiteScore(by=str(n), tasks=[task("a", count, 100), task("b", 50, 100)]) for n, count in enumerate(right)]

    assert lost(scores(90, 91), scores(89, 88)) == pytest.approx({"a": 0.03, "b": 0})
