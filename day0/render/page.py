"""The reports of a chain as one page of HTML that needs nothing else: no network, no script, one file.

What reports quote from a release is hostile: every value is escaped, what cannot be seen is written out, and the page's own policy
lets a browser load and run nothing.
"""

import shlex
from importlib import resources
from itertools import groupby
from typing import Any

import jinja2
from markupsafe import Markup, escape

from day0.render import figures, strip
from day0.render.adapt import SUMMARIES
from day0.render.numbers import count, seconds, size, tokens
from day0.render.svg import legible
from day0.spec.record import record
from day0.spec.reports.base import FindingRow, Input
from day0.spec.reports.kinds import kinds
from day0.stages.conclusion import YES, Reports, conclude, findings

NAME = "index.html"
FIRST = "page.html.jinja"
TITLES = {
    "inspect": "Is this copy sound, and what is it?", "plan-memory": "Does it fit?", "map-ops": "What runs each operator?",
    "validate-layer": "Are the numbers right?", "run": "Does it answer?", "serve": "Does it serve?",
}  # fmt: skip
STATUSES = {"fail": "Wrong", "warn": "To look at", "unknown": "Not known", "pass": "Passed"}  # in the order of their weight
SIGNS = {"works": "good", "works with fallbacks": "fair", "not shown to work": "fair", "does not work": "bad"}  # answer → class of its colour


@record
class Stage:
    """One question of the chain and its answer."""

    name: str  # of the stage
    question: str  # in words
    verdict: str  # its report's, or "not run"
    yes: bool | None  # null where it has not run
    said: str  # the answer in a line


@record
class Group:
    """Findings of one check with one status."""

    stage: str
    status: str
    code: str  # empty where no check said it
    rows: list[FindingRow]

    @property
    def hints(self) -> list[str]:
        return list(dict.fromkeys(row.hint for row in self.rows if row.hint))


def page(reports: Reports) -> str:
    """The whole file. The same reports give the same text."""
    settings = jinja2.Environment(
        loader=jinja2.FunctionLoader(_template), autoescape=True, undefined=jinja2.StrictUndefined, finalize=legible, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    settings.filters |= {"size": size, "count": count, "seconds": seconds, "tokens": tokens, "figure": _figure, "code": _code, "shell": shlex.join}
    told = groups(reports)
    return settings.get_template(FIRST).render(
        reports=reports, conclusion=conclude(reports), stages=stages(reports), signs=SIGNS, titles=STATUSES, figures=figures, strip=strip,
        told=[group for group in told if group.status != "pass"], passed=[group for group in told if group.status == "pass"],
        style=Markup(_template("style.css")), inputs=inputs(reports),
    )  # fmt: skip


def stages(reports: Reports) -> list[Stage]:
    """All six, whether they ran or not."""
    found = []
    for name, report in reports.stages.items():
        said = str(getattr(report, "verdict", "not run"))
        line = SUMMARIES[name](report) if report else _absent(name, reports)
        found.append(Stage(name=name, question=TITLES[name], verdict=said, yes=said in YES if report else None, said=line))
    return found


def groups(reports: Reports) -> list[Group]:
    """Every finding of every report: the worst first, there by stage and check."""
    found = [(stage, row) for stage, report in reports.stages.items() if report for row in findings(report)]
    places = {stage: place for place, stage in enumerate(reports.stages)}
    order = list(STATUSES)

    def key(entry: tuple[str, FindingRow]) -> tuple[int, int, str]:
        return order.index(entry[1].status), places[entry[0]], entry[1].code

    found.sort(key=key)
    made = []
    for _, members in groupby(found, key):
        rows = list(members)
        made.append(Group(stage=rows[0][0], status=rows[0][1].status, code=rows[0][1].code, rows=[row for _, row in rows]))
    return made


def inputs(reports: Reports) -> list[Input]:
    """Every file that a report was made from, once."""
    found: dict[tuple[str, str], Input] = {}
    for report in reports.stages.values():
        for entry in report.provenance.inputs if report else ():
            found.setdefault((entry.path, entry.sha256), entry)
    return list(found.values())


def _absent(stage: str, reports: Reports) -> str:
    error = reports.refused.get(stage)
    return str(error) if error else f"run `{kinds()[stage].COMMAND}`"


def _figure(number: Any, digits: int = 3) -> str:
    """A measured number, or a dash."""
    return "–" if number is None else f"{number:.{digits}g}"


def _code(text: str) -> Markup:
    """Text in which what stands between backticks is a command."""
    parts = str(legible(text)).split("`")
    told = [Markup("<code>{}</code>").format(part) if place % 2 and place < len(parts) - 1 else escape(part) for place, part in enumerate(parts)]
    return Markup("").join(told)


def _template(name: str) -> str:
    return (resources.files("day0.templates") / "page" / name).read_text(encoding="utf-8")
