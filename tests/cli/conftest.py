"""A folder to work in, a copy of the embedded model, and the command line called in this process."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from day0.cli import app

EXAMPLE = Path(__file__).parents[2] / "examples" / "tiny-dsv3"


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> str:
        return next(line.removeprefix("error: ") for line in self.err.splitlines() if line.startswith("error: "))

    @property
    def hint(self) -> str:
        return next(line.removeprefix("hint: ") for line in self.err.splitlines() if line.startswith("hint: "))


@pytest.fixture
def day0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Runs one command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DAY0_DEBUG", raising=False)

    def run(*arguments: object) -> Done:
        words = [str(argument) for argument in arguments]
        monkeypatch.setattr("sys.argv", ["day0", *words])
        capsys.readouterr()
        code = app.main(words)
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return Done(code, out, err)

    return run


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A copy of the embedded model that a test may damage."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "tiny-dsv3"))


@pytest.fixture
def mapped(day0: Callable[..., Done], model: Path) -> Path:
    """The model after inspect, plan-memory and map-ops."""
    for command in (("inspect", model), ("plan-memory", "--context", "64", "--batch", "2", "--dtype", "float32"), ("map-ops",)):
        assert day0(*command).code == 0
    return model
