"""`make demo`: what it says, and that it opens no connection beyond this machine."""

import os
import shlex
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("PIL")

from tests.cli.conftest import Done
from tests.cli.conftest import day0 as day0
from tests.examples.conftest import MODEL, ROOT

Day0 = Callable[..., Done]
HERE = ("127.0.0.1", "::1", "localhost")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a network: only itself is reached."""
    connect = socket.socket.connect

    def only_here(self: socket.socket, address: Any) -> None:
        assert address[0] in HERE, f"a connection to {address}"
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", only_here)
    monkeypatch.setattr(socket.socket, "connect_ex", lambda _self, address: pytest.fail(f"a connection to {address}"))


def commands() -> Iterator[list[str]]:
    """What `make demo` runs once day0 is installed, with paths that hold anywhere."""
    outer = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}  # of a make that runs the tests
    told = subprocess.run(["make", "-n", "-o", ".venv/run.stamp", "demo"], cwd=ROOT, capture_output=True, text=True, check=True, env=outer)
    for line in told.stdout.splitlines():
        program, *words = shlex.split(line)
        assert program.endswith("day0")
        yield [str(ROOT / word) if word.startswith("examples/") else word for word in words]


def check_answers(day0: Day0, questions: list[list[str]]) -> None:
    fact, caption, recall = (day0(*words) for words in questions)
    assert (fact.code, fact.out) == (0, "The capital of France is Paris.\n")
    assert (caption.code, caption.out) == (0, "The image shows a green triangle.\n")
    assert (recall.code, recall.out) == (0, "Found: thorn tulip.\n")


def test_its_questions_are_answered_rightly(day0: Day0, tmp_path: Path) -> None:
    assert day0("inspect", MODEL).code == 0
    assert day0("plan-memory", "--with-vision").code == 0
    assert day0("map-ops").code == 0
    check_answers(day0, list(commands())[1:])
    (tmp_path / "s.json").write_text('{"questions": [{"kind": "a", "prompt": "b", "answer": "c", "images": ["../x.png"]}]}')
    assert day0("run", "--suite", "s.json").error == "s.json: the image '../x.png' lies outside the folder of the suite"


def test_the_recalled_pair_lies_beyond_the_budget_of_the_index(day0: Day0) -> None:
    """More tokens before the question than sparse attention reads, and the pair among the first of them."""
    from day0.engine.text import Tokenizer

    tokenizer, text = Tokenizer.open(MODEL), (MODEL / "pairs.txt").read_text()
    budget = yaml.safe_load((MODEL / "config.json").read_text())["text_config"]["index_topk"]
    after = text.split("thorn tulip")[1]
    assert "thorn" in after and len(tokenizer.encode(after)) > budget and len(tokenizer.encode(text)) > 2 * budget


@pytest.mark.slow
def test_all_of_it(day0: Day0, tmp_path: Path) -> None:
    adapt, *questions = commands()
    done = day0(*adapt)
    assert (done.code, "The capital of France is Paris." in done.out) == (0, True)
    scores = yaml.safe_load((tmp_path / "reports/tiny-glm5next/this-machine/run.yaml").read_text())["suites"]
    assert [score["by"] for score in scores] == ["native", "community", "original, native", "original, community"]
    ours, theirs = ({task["kind"]: task["right"] for task in score["tasks"]} for score in scores[:2])
    assert ours.keys() == theirs.keys()
    assert all(abs(ours[kind] - theirs[kind]) <= 1 for kind in ours)
    check_answers(day0, questions)
