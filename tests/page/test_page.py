"""What the page is, without a browser: well-formed, complete, alone, and safe from what reports quote."""

import dataclasses
import math
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from day0.render.charts import Stack, lines, stacks, ticks
from day0.render.page import page
from day0.render.strip import ranges
from day0.spec.errors import Day0Error
from day0.spec.finding import Status
from day0.spec.reports.base import FindingRow
from day0.spec.reports.validate import Divergence
from day0.spec.suite import FILE
from day0.stages.chain import Chain
from day0.stages.conclusion import Reports, conclude, gather
from tests.page.conftest import PAGES, command

VOID = {"meta", "link", "br", "hr", "img", "input"}
HOSTILE = "</style><script>alert(1)</script><img src=x onerror=alert(1)>\" ' {{7*7}} {% raw %} `a` \u202etxt.exe\x00\x1b[31m&amp;"
SAFE = {
    *("html", "head", "meta", "link", "title", "style", "body", "header", "main", "section", "article", "h1", "h2", "h3", "h4", "p", "ul", "li"),
    *("dl", "div", "dt", "dd", "table", "caption", "thead", "tbody", "tr", "th", "td", "figure", "figcaption", "blockquote", "q", "bdi", "b", "i"),
    *("a", "code", "small", "strong", "span", "details", "summary", "svg", "rect", "line", "circle", "text", "nav"),
}  # fmt: skip


class Parsed(HTMLParser):
    """Elements and text; wrong nesting is an error."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, (tag, self.getpos())

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def words(self) -> str:
        return " ".join("".join(self.texts).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def changed(value: Any, change: Callable[[Any, Any], Any], kind: Any = None) -> Any:
    """A report in which `change(value, type)` has been applied to every leaf; types other than str and float are left alone."""
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        return value.model_copy(update={name: changed(getattr(value, name), change, fields[name].annotation) for name in fields})
    if isinstance(value, list):
        return [changed(one, change, str) if isinstance(one, str) else changed(one, change) for one in value]
    if isinstance(value, dict) and kind == dict[str, str]:
        return {change(key, str): change(one, str) for key, one in value.items()}
    return change(value, kind)


def every(reports: Reports, change: Callable[[Any, Any], Any]) -> Reports:
    return Reports.of(Chain(Path(), "m"), {stage: changed(report, change) for stage, report in reports.stages.items() if report})


@pytest.mark.parametrize("name", PAGES)
def test_well_formed_and_alone(pages: dict[str, Path], name: str) -> None:
    """Nothing is loaded: no address but its own fragments and the reports beside it, and a policy that forbids the rest."""
    text = pages[name].read_text(encoding="utf-8")
    parsed = Parsed(text)
    assert {tag for tag, _ in parsed.elements} <= SAFE
    found = [value or "" for _, attributes in parsed.elements for key, value in attributes.items() if key in {"href", "src", "srcset", "action"}]
    assert all(re.fullmatch(r"#\w+|data:,|[a-z-]+\.yaml", address) for address in found)
    assert all(f'id="{address[1:]}"' in text for address in found if address.startswith("#"))
    assert all((pages[name].parent / address).is_file() for address in found if address.endswith(".yaml"))
    assert "url(" not in text and "@import" not in text
    assert "default-src 'none'" in (parsed.all("meta")[1]["content"] or "")


@pytest.mark.parametrize("name", PAGES)
def test_semantics(pages: dict[str, Path], name: str) -> None:
    """One first heading, no level left out, tables with captions and heads, pictures with words, ids that are unique."""
    parsed = Parsed(pages[name].read_text(encoding="utf-8"))
    tags = [tag for tag, _ in parsed.elements]
    levels = [int(tag[1]) for tag in tags if re.fullmatch(r"h\d", tag)]
    assert levels.count(1) == 1 and levels[0] == 1
    assert tags.count("table") == tags.count("caption") == tags.count("thead")
    assert all(cell.get("scope") in ("col", "row") for cell in parsed.all("th"))
    assert all(len(picture["aria-label"] or "") > 20 and picture["role"] == "img" for picture in parsed.all("svg"))
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert all(attributes["aria-labelledby"] in ids for _, attributes in parsed.elements if "aria-labelledby" in attributes)
    assert all(region.get("tabindex") == "0" for region in parsed.all("div") if region.get("role") == "region")


@pytest.mark.parametrize(("name", "answer", "words"), [
    ("whole", "Works with fallbacks", ["route is run by its reference in 6 of 6 calls", "The capital of France is Paris.", "transformers"]),
    ("damaged", "Does not work", ["The chain stops at inspect", "D0110", "4096 bytes are missing", "day0 explain D0110"]),
    ("short", "Does not work", ["The chain stops at plan-memory", "D0403", "for a step of", "short"]),
    ("refused", "Not shown to work", ["The chain stops at plan-memory", "int3"]),
    ("planned", "Not shown to work", ["The chain stops before map-ops", "map-ops has not run", "day0 map-ops"]),
])  # fmt: skip
def test_verdict(pages: dict[str, Path], name: str, answer: str, words: list[str]) -> None:
    parsed = Parsed(pages[name].read_text(encoding="utf-8"))
    assert answer in parsed.words
    assert [word for word in words if word not in parsed.words] == []


def test_figures_of_the_reports_are_on_the_page(pages: dict[str, Path], whole: Reports) -> None:
    """Against the YAML beside it: kinds of layers, files with their digests, the commands, both latencies."""
    parsed = Parsed(pages["whole"].read_text(encoding="utf-8"))
    assert whole.inspect and whole.run and whole.run.times.first_token and whole.validated
    assert all(kind.name.split(" + ")[0] in parsed.words for kind in whole.inspect.structure.kinds)
    assert all(entry.sha256 in parsed.words for report in whole.stages.values() if report for entry in report.provenance.inputs)
    assert f"{whole.run.times.first_token * 1e3:.3g} ms" in parsed.words
    assert f"All {len(whole.validated.layer_errors)} comparisons" in parsed.words


def test_right_answers_are_on_the_page(root: Path, pages: dict[str, Path], whole: Reports) -> None:
    """Ours beside those of transformers and of others; what was wrong and left out; and the file of the questions."""
    assert whole.run
    words = Parsed(pages["whole"].read_text(encoding="utf-8")).words
    assert all(score.by in words for score in whole.run.suites) and len(whole.run.suites) == 3
    assert "1 of 2 0.09–0.91" in words and "99 of 100 0.95–1.00" in words
    assert "Rome it is." in words and "The capital of Italy is Rome." in words
    assert "Left out, since the plan takes no images: 1." in words
    asked = root.parent / "whole" / FILE
    entry = next(entry for entry in whole.run.provenance.inputs if entry.path == str(asked))
    assert entry.sha256 == whole.run.suites[0].sha256 and str(asked) in words
    bare = dataclasses.replace(whole, run=whole.run.model_copy(update={"suites": []}))
    assert "Right answers" not in Parsed(page(bare)).words


def test_the_same_reports_give_the_same_page(root: Path, pages: dict[str, Path]) -> None:
    before = pages["whole"].read_bytes()
    assert command("page", root.parent / "whole", "--reports", root) == 0
    assert pages["whole"].read_bytes() == before


def test_every_finding_is_present(whole: Reports) -> None:
    assert whole.inspect
    statuses: tuple[Status, ...] = ("fail", "warn", "unknown", "pass")
    rows = [
        FindingRow(code=f"D{100 + n % 7:04}", status=statuses[n % 4], subject=f"subject{n}.", found=f"found{n}.", hint=f"hint{n}.")
        for n in range(200)
    ]
    reports = Reports(model="m", target="t", refused={}, inspect=whole.inspect.model_copy(update={"verdict": "unsound", "findings": rows}))
    words = Parsed(page(reports)).words
    assert [n for n in range(200) if f"subject{n}." not in words or f"found{n}." not in words] == []
    assert [n for n in range(200) if n % 4 != 3 and f"hint{n}." not in words] == []
    assert "and 45 more" in words


@pytest.mark.parametrize(("verdict", "answer", "reason"), [
    ("fail", "does not work", "first wrong at layer 2, ffn"), ("unknown", "not shown to work", "neither layers nor logits could be compared"),
])  # fmt: skip
def test_numbers_that_are_wrong_or_not_known(whole: Reports, verdict: str, answer: str, reason: str) -> None:
    assert whole.inspect and whole.validated
    first = Divergence(rung="layers", layer=2, part="ffn", code="D0511", statistic="error 0.3", expected="0.01", line="first wrong at layer 2, ffn")
    told = {"verdict": verdict, "first_divergence": first if verdict == "fail" else None}
    reports = dataclasses.replace(whole, validated=whole.validated.model_copy(update=told))
    found = conclude(reports)
    assert (found.answer, found.stage, found.reasons) == (answer, "validate-layer", [reason])
    assert reason in Parsed(page(reports)).words and ("First wrong at" in page(reports)) == (verdict == "fail")


def test_hostile_text_is_text(whole: Reports) -> None:
    """Every string of every report: nothing of it becomes an element, an attribute or a template, and all of it can be seen."""
    text = page(every(whole, lambda value, kind: HOSTILE if isinstance(value, str) and kind in (str, str | None) else value))
    parsed = Parsed(text)
    assert {tag for tag, _ in parsed.elements} <= SAFE
    assert {key for _, attributes in parsed.elements for key in attributes if key.startswith("on")} == set()
    assert "{{7*7}}" in parsed.words and "<script>alert(1)</script>" in parsed.words
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", text)
    assert "\\u202etxt.exe\\u0000\\u001b[31m" in parsed.words


@pytest.mark.parametrize("number", [math.nan, math.inf, 0.0, -1.0, 1e300])
def test_any_number_can_be_drawn(whole: Reports, number: float) -> None:
    text = page(every(whole, lambda value, _: number if type(value) is float else value))
    Parsed(text)
    assert not re.search(r'="-?(nan|inf)', text)


def test_a_stage_that_could_not_work(root: Path) -> None:
    """Its own words, and what it advises; later reports of an earlier run are not the chain's."""
    reports = gather(Chain(root, "whole"), ["inspect"], {"plan-memory": Day0Error("no such type: int3", "config.json", "give --dtype")})
    found = conclude(reports)
    assert (found.answer, found.stage, found.remedies) == ("not shown to work", "plan-memory", ["give --dtype"])
    words = Parsed(page(reports)).words
    assert "plan-memory: config.json: no such type: int3" in words and "Memory of each card" not in words


def test_works_with_and_without_fallbacks(whole: Reports) -> None:
    """The same chain, had every operator been run by something made for the machine; and had transformers answered."""
    assert whole.mapped and whole.run
    sites = [site.model_copy(update={"status": "native"}) for site in whole.mapped.sites]
    better = dataclasses.replace(whole, mapped=whole.mapped.model_copy(update={"sites": sites}))
    assert (conclude(better).answer, conclude(better).reasons, conclude(better).remedies) == ("works", [], [])
    assert conclude(dataclasses.replace(better, served=None)).answer == "works"
    borrowed = dataclasses.replace(better, run=whole.run.model_copy(update={"executor": "community"}))
    assert (conclude(borrowed).answer, len(conclude(borrowed).reasons)) == ("works with fallbacks", 1)
    assert "Works" in Parsed(page(better)).words and "0.0 % falls back" in Parsed(page(better)).words


def test_no_reports(tmp_path: Path) -> None:
    with pytest.raises(Day0Error, match="there are no reports"):
        gather(Chain(tmp_path, "none"))


def test_charts_of_many_layers() -> None:
    assert list(ticks(60)) == [0, 10, 20, 30, 40, 50, 60]
    assert list(ticks(0)) == [0]
    assert ranges([0, 1, 2, 5, 7, 8]) == ["0–2", "5", "7–8"]
    assert "<circle" not in lines([], 0, "no points at all")


def test_parts_fill_no_more_than_the_bar() -> None:
    parts = [("a", 1e12, "a1"), *((f"small {n}", 1.0, "a2") for n in range(5))]
    widths = re.findall(r'mark part.*?width="([\d.]+)%', stacks([Stack(name="", said="", parts=parts, whole=1e12 + 5)], "parts"))
    assert len(widths) == 6 and min(map(float, widths)) > 0.3
    assert sum(map(float, widths)) <= 100.01
