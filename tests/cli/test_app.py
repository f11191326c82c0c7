"""The command line itself: help, version, and what goes wrong as a message and an exit code."""

import json
import subprocess
import sys
from typing import Any

import pytest

from day0.cli import app
from day0.spec.errors import Day0Error, Refused
from day0.spec.registry import checks


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes `day0 schema` raise what the test wants."""

    def fail_with(error: BaseException) -> None:
        import day0.cli.schema

        def command() -> None:
            raise error

        monkeypatch.setattr(day0.cli.schema, "command", command)

    monkeypatch.delenv("DAY0_DEBUG", raising=False)
    return fail_with


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["--version"]) == 0
    assert capsys.readouterr().out == "day0 0.1.0\n"


def test_without_arguments_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main([]) == 0
    assert "Usage: day0" in capsys.readouterr().out


def test_the_help_lists_the_chain_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    app.main(["--help"])
    _, _, rest = capsys.readouterr().out.partition("The chain:")
    listed = [line.split()[0] for line in rest.partition("Other commands:")[0].splitlines() if line.strip() and line[2:3].strip()]
    assert listed == ["inspect", "plan-memory", "map-ops", "validate", "run", "serve"]


@pytest.mark.parametrize(("arguments", "problem", "hint"), [
    (["inspekt"], "there is no command 'inspekt'", "did you mean `day0 inspect`?"),
    (["--loud"], "No such option: --loud", "see `day0 --help`"),
    (["schema", "--loud"], "No such option: --loud", "see `day0 schema --help`"),
    (["plan-memory", "--batch", "0"], "Invalid value for '--batch'", "see `day0 plan-memory --help`"),
    (["schema", "cooking"], "no stage named 'cooking'", "stages: inspect,"),
    (["explain", "D9999"], "no check has the code 'D9999'", "codes: "),
])  # fmt: skip
def test_usage_errors(arguments: list[str], problem: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(arguments) == 2
    out, err = capsys.readouterr()
    first, second = err.splitlines()
    assert out == ""
    assert first.startswith(f"error: {problem}")
    assert second.startswith(f"hint: {hint}")


@pytest.mark.parametrize(("error", "said", "code"), [
    (Day0Error("is broken", "a/b.json", hint="mend it"), "error: a/b.json: is broken\nhint: mend it\n", 2),
    (Day0Error("is broken"), "error: is broken\n", 2),
    (Refused("does not fit", "plan.yaml"), "error: plan.yaml: does not fit\n", 1),
    (PermissionError(13, "Permission denied", "reports"), "error: reports: Permission denied\n", 2),
    (ValueError("oops"), "error: unexpected ValueError: oops\nhint: this is a fault of day0; set DAY0_DEBUG=1 for the traceback\n", 2),
    (KeyboardInterrupt(), "", 130),
])  # fmt: skip
def test_errors_are_one_line_and_an_exit_code(
    failing: Any, error: BaseException, said: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(error)
    assert app.main(["schema"]) == code
    assert capsys.readouterr().err == said


def test_debug_shows_the_traceback(failing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAY0_DEBUG", "1")
    failing(ValueError("oops"))
    with pytest.raises(ValueError, match="oops"):
        app.main(["schema"])


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m day0 schema plan-memory | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("{\n", "")


def test_schemas_are_json_schemas(capsys: pytest.CaptureFixture[str]) -> None:
    app.main(["schema"])
    stages = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert stages[:6] == ["inspect", "plan-memory", "map-ops", "validate-layer", "run", "serve"]
    assert stages[6:] == ["adapt", "diff", "discovered", "incident", "replay", "score", "trace", "trace-diff"]
    for stage in stages:
        assert app.main(["schema", stage]) == 0
        schema = json.loads(capsys.readouterr().out)
        assert schema["additionalProperties"] is False
        assert all("description" in field for field in schema["properties"].values() if field.get("title") != "Schema")


def test_aliases_of_stages(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["schema", "validate"]) == app.main(["schema", "plan_memory"]) == 0
    assert app.main(["validate-layer", "--help"]) == 0
    assert "day0 validate-layer" in capsys.readouterr().out


def test_explain_lists_and_tells(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["explain"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line for line in listed if line.startswith("day0 ")] == ["day0 inspect:", "day0 plan-memory:", "day0 validate:"]
    codes = dict(line.strip().split("  ", 1) for line in listed if line.startswith("  "))
    assert len(codes) == len(checks().names())
    for code, line in codes.items():
        assert app.main(["explain", code.lower()]) == 0
        told = capsys.readouterr().out
        assert told.startswith(f"{code}  {line}\n")
        assert all(f"\n{part}: " in told for part in ("Why", "Remedy", "Made by"))
