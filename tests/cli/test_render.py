"""What a person sees: numbers, plain text without a terminal, answers in order."""

import io

import pytest
from rich.console import Console

from day0.render.console import console, draw
from day0.render.numbers import count, seconds, size, tokens
from day0.render.progress import progress
from day0.render.run import Answers
from day0.render.table import facts, verdict
from day0.spec.request import Output


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("number", "text"), [
    (0, "0"), (999, "999"), (1000, "1.00k"), (2_033_408, "2.03M"), (134_515_008, "135M"), (104e9, "104B"), (999.6e9, "1.00T"),
    (2.78e12, "2.78T"),
])  # fmt: skip
def test_counts(number: float, text: str) -> None:
    assert count(number) == text


@pytest.mark.parametrize(("number", "text"), [
    (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (237.2 * 2**30, "237.2 GiB"), (1.5 * 2**40, "1.5 TiB"),
])  # fmt: skip
def test_sizes(number: float, text: str) -> None:
    assert size(number) == text


@pytest.mark.parametrize(("number", "text"), [(131072, "128k"), (4096, "4k"), (1000, "1000"), (163_841, "163841"), (0, "0")])
def test_lengths(number: int, text: str) -> None:
    assert tokens(number).replace("\N{NO-BREAK SPACE}", "").replace(" ", "") == text


@pytest.mark.parametrize(("time", "text"), [(2e-5, "20 µs"), (0.0123, "12.3 ms"), (4.56, "4.56 s"), (200.4, "3 min 20 s")])
def test_times(time: float, text: str) -> None:
    assert seconds(time) == text


def drawn(stream: io.StringIO) -> str:
    console(stream).print(verdict("fits", True))
    return stream.getvalue()


def test_colour_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[" in drawn(Terminal())
    assert drawn(io.StringIO()) == "fits\n"


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    assert drawn(Terminal()) == "fits\n"


@pytest.mark.parametrize(("took", "said"), [(4.2, "reading weights: 4.2 s\n"), (0.2, "")])
def test_progress_without_a_terminal_is_one_line_a_task(
    took: float, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, took])
    monkeypatch.setattr("day0.render.progress.time.monotonic", lambda: next(clock))
    with progress() as listen:
        listen("reading weights", 1, 3)
        listen("reading weights", 3, 3)
    assert capsys.readouterr() == ("", said)


def test_lines_without_a_terminal_do_not_end_in_blanks(capsys: pytest.CaptureFixture[str]) -> None:
    draw(facts([("a", "1"), ("long name", "long value")]))
    assert capsys.readouterr().out == "a          1\nlong name  long value\n"


def news(text: str, done: bool = False) -> Output:
    return Output(id="", text=text, finish="stop" if done else None)


def test_one_answer_streams_as_it_comes() -> None:
    out = io.StringIO()
    answers = Answers(["?"], out)
    answers.hear(0, news("Par"))
    assert out.getvalue() == "Par"
    answers.hear(0, news("is.", done=True))
    assert out.getvalue() == "Paris.\n"


def test_several_answers_come_in_order() -> None:
    out = io.StringIO()
    answers = Answers(["one?", "two?"], out)
    answers.hear(1, news("2", done=True))
    answers.hear(0, news("1"))
    assert out.getvalue() == "> one?\n1"
    answers.hear(0, news("", done=True))
    assert out.getvalue() == "> one?\n1\n\n> two?\n2\n"


def test_markup_in_text_is_text() -> None:
    out = io.StringIO()
    console(out).print(verdict("[bold]x[/bold]", None))
    assert out.getvalue() == "[bold]x[/bold]\n"
    assert isinstance(console(out), Console)
