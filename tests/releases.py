"""What `inspect` counts from released configurations alone, beside what is published, as a table.

The command `python -m tests.releases docs/releases.md CONFIGS` writes it; CONFIGS is a folder of files `owner--model_config.json`.
"""

import json
import sys
import tempfile
from pathlib import Path

import day0
from day0.spec.reports.inspect import InspectReport
from day0.stages.inspect import inspect
from tests.released import RELEASES, UNREAD

HEAD = """# Released models, from their configuration alone

Billions of weights that `day0 inspect` counts in a folder that holds nothing but `config.json`, and what is published. Counts are those of
the language model: towers and prediction layers are left out. *Active* counts the embedding table, of routed experts the share that is
chosen for a token, and everything else whole; publishers differ in what they leave out. *Error* is that of the total.

Written with day0 {day0} by

    {command}

## Read by a family

{read}

The worst error is {worst:.2f} %.

## Read by no family

Counted from the usual words of the configuration. The bracket says what those words leave open: the report lists it under `structure.open`.

{unread}
"""


def alone(config: dict, folder: Path) -> InspectReport:
    """What is told of a folder that holds this configuration and nothing else."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    return inspect(folder)


def error(found: float, published: float) -> float:
    """In percent."""
    return 100 * (found / 1e9 / published - 1)


def row(name: str, report: InspectReport) -> str:
    """One line of the first table."""
    published, counted = RELEASES[name], report.parameters
    active = "" if published.active is None else f"{published.active:g}"
    figures = f"{published.total:g} | {active} | {counted.total / 1e9:.2f} | {(counted.active or 0) / 1e9:.2f}"
    off = f"{error(counted.total, published.total):+.2f} %"
    return f"| {name.replace('--', '/')} | {report.model.family} | {figures} | {off} | {published.source} |"


def bracket(name: str, report: InspectReport) -> str:
    """One line of the second table."""
    published, counted = UNREAD[name], report.parameters
    least, most = (counted.least or counted.total) / 1e9, (counted.most or counted.total) / 1e9
    figures = f"{published.total:g} | {counted.total / 1e9:.2f} | {least:.2f} to {most:.2f}"
    return f"| {name} | {report.model.model_type} | {figures} | {error(counted.total, published.total):+.2f} % | {published.source} |"


def main(arguments: list[str]) -> int:
    """Exit code 1 when a total that a family counts is off by more than half a percent, or a bracket does not hold."""
    out, configs = Path(arguments[0]), Path(arguments[1])
    with tempfile.TemporaryDirectory() as scratch:
        present = [name for name in RELEASES if (configs / f"{name}_config.json").is_file()]
        read = {name: alone(json.loads((configs / f"{name}_config.json").read_text()), Path(scratch) / name) for name in present}
        unread = {name: alone(one.config, Path(scratch) / name) for name, one in UNREAD.items()}
    known = {name: report for name, report in read.items() if report.model.family}
    errors = [abs(error(report.parameters.total, RELEASES[name].total)) for name, report in known.items()]
    head = "| release | family | published | active | counted | active | error | source |\n|---|---|---:|---:|---:|---:|---:|---|"
    tail = "| model | model_type | published | counted | bracket | error | source |\n|---|---|---:|---:|---|---:|---|"
    text = HEAD.format(
        day0=day0.__version__, command=f"python -m tests.releases {arguments[0]} CONFIGS", worst=max(errors),
        read="\n".join([head, *(row(name, report) for name, report in known.items())]),
        unread="\n".join([tail, *(bracket(name, report) for name, report in unread.items())]),
    )  # fmt: skip
    out.write_text(text, encoding="utf-8")
    return 0 if max(errors) <= 0.5 and all(map(holds, unread, unread.values())) else 1


def holds(name: str, report: InspectReport) -> bool:
    """Whether the bracket contains the published total; what a family reads has none, and must be near it."""
    counted, total = report.parameters, UNREAD[name].total * 1e9
    if counted.least is None or counted.most is None:
        return abs(error(counted.total, UNREAD[name].total)) <= 0.5
    return counted.least <= total <= counted.most


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
