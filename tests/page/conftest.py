"""Pages of chains that went through and of chains that stopped, each made once by the command line."""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from day0.cli import app
from day0.spec.suite import FILE
from day0.stages.chain import Chain
from day0.stages.conclusion import Reports, gather
from tests.page.browser import Browser, browser, missing

EXAMPLE = Path(__file__).parents[2] / "examples" / "tiny-dsv3"
SUITE = {
    "max_new": 12,
    "questions": [
        {"kind": "facts", "prompt": "What is the capital of France?", "answer": "The capital of France is Paris."},
        {"kind": "facts", "prompt": "What is the capital of Italy?", "answer": "Rome it is."},
        {"kind": "sums", "prompt": "What is 2 + 3?", "answer": "2 + 3 = 5."},
        {"kind": "captions", "prompt": "What is it?", "answer": "A cat.", "images": ["cat.png"]},
    ],
    "measured": [
        {"by": "its authors", "tasks": [{"kind": "facts", "questions": 100, "right": 99, "accuracy": 0.99, "low": 0.9455, "high": 0.9982}]},
    ],
}  # of the model that goes through
PAGES = ("whole", "damaged", "short", "planned", "refused")


def command(*words: object) -> int:
    """One command line; its exit code."""
    before, sys.argv = sys.argv, ["day0", *map(str, words)]
    try:
        return app.main([str(word) for word in words])
    finally:
        sys.argv = before


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of reports on four copies of the embedded model."""
    root = tmp_path_factory.mktemp("page")
    models = {name: Path(shutil.copytree(EXAMPLE, root / name)) for name in PAGES}
    (models["whole"] / FILE).write_text(json.dumps(SUITE))
    shard = sorted(models["damaged"].glob("*.safetensors"))[0]
    os.truncate(shard, shard.stat().st_size - 4096)
    reports = ("--reports", root / "reports")
    assert command("adapt", models["whole"], "--context", "128", "--batch", "2", *reports) == 0
    assert command("adapt", models["damaged"], *reports) == 1
    assert command("adapt", models["short"], "--batch", "1000000000", *reports) == 1
    assert command("inspect", models["planned"], *reports) == 0
    assert command("plan-memory", models["planned"], "--context", "64", *reports) == 0
    assert command("page", models["planned"], *reports) == 0
    assert command("adapt", models["refused"], "--dtype", "int3", *reports) == 2
    return root / "reports"


@pytest.fixture(scope="session")
def pages(root: Path) -> dict[str, Path]:
    return {name: root / name / "this-machine" / "index.html" for name in PAGES}


@pytest.fixture(scope="session")
def whole(root: Path) -> Reports:
    """Reports of the chain that went through."""
    return gather(Chain(root, "whole"))


@pytest.fixture(scope="session")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One session for all tests."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    with browser(tmp_path_factory.mktemp("profile")) as session:
        yield session
