"""What long work says on a stderr that is no terminal."""

import pytest

from day0.render import progress


def test_now_and_then_how_long_it_may_take(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    clock = iter([0.0, 10.0, 40.0, 50.0, 80.0, 100.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    lines = progress.Lines(quiet=False)
    for done in (0, 1, 4, 5, 8, 10):
        lines("layers", done, 10)
    assert capsys.readouterr().err.splitlines() == ["layers: 40%, about 1 min 0 s left", "layers: 80%, about 20 s left", "layers: 100.0 s"]
