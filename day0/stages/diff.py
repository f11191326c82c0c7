"""`day0 diff`: what changed from one release to the next: structure, counts, bytes, configuration, tokenizer, template, findings.

Reads two inspect reports, or inspects folders and addresses on the way. Leaves nothing.
Exit codes of the command: 0 no difference; 1 there are differences; 2 one of both cannot be read.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from day0.checkpoint import index
from day0.checkpoint.source import address
from day0.spec.progress import Progress, silent
from day0.spec.reports.diff import ChangeRow, DiffReport
from day0.spec.reports.inspect import InspectReport
from day0.stages.inspect import inspect

NO_PART = frozenset({"schema", "provenance", "source", "verdict", "checks", "evidence", "headers"})  # of the report, not of the release
NAMES = frozenset({"model.name", "model.folder"})
APART = frozenset({"layers", "files", "findings"})  # compared in their own way
COUNTED = ("config.json", index.NAME)  # compared by what they say


def diff(before: Path, after: Path, progress: Progress = silent) -> DiffReport:
    """Compare two releases, each an inspect report, a folder or an address."""
    one, other = (read(place, progress) for place in (before, after))
    changes = [ChangeRow(part=part, key=key, before=a, after=b) for part, key, a, b in differences(one, other)]
    return DiffReport(
        verdict="different" if changes else "same",
        before=one.model.name,
        after=other.model.name,
        weights_compared=all(file.sha256 for report in (one, other) for file in report.files),
        changes=changes,
    )


def read(place: Path, progress: Progress = silent) -> InspectReport:
    """The inspect report in a file, or made of a folder or address."""
    if not address(place) and place.suffix in (".yaml", ".yml"):
        return InspectReport.read(place)
    return inspect(place, progress=progress)


def differences(one: InspectReport, other: InspectReport) -> Iterator[tuple[str, str, Any, Any]]:
    """(part, key, before, after) of each."""
    before, after = one.to_dict(), other.to_dict()
    for part in (part for part in before if part not in NO_PART):
        if part == "layers":
            yield from _layers(before[part], after[part])
        elif part == "config":
            yield from _compare(part, before[part]["values"], after[part]["values"])
        elif part not in APART:
            yield from _compare(part, flat(before[part], part), flat(after[part], part), within=True)
    yield from _compare("files", files(one), files(other))
    yield from _compare("findings", findings(one), findings(other))


def flat(value: Any, path: str) -> dict[str, Any]:
    """Dotted path → value that has no parts. Entries of a list go by their name where they have one."""
    if isinstance(value, dict):
        return {key: leaf for name, inner in value.items() for key, leaf in flat(inner, f"{path}.{name}").items()}
    if isinstance(value, list):
        if any(isinstance(inner, dict | list) for inner in value):
            named = {str(inner.get("name", place) if isinstance(inner, dict) else place): inner for place, inner in enumerate(value)}
            return flat(named, path)
        return {path: ", ".join(map(str, value))}
    return {path: value}


def _compare(part: str, before: Mapping[str, Any], after: Mapping[str, Any], within: bool = False) -> Iterator[tuple[str, str, Any, Any]]:
    for key in dict.fromkeys((*before, *after)):
        a, b = before.get(key), after.get(key)
        if a != b and key not in NAMES:
            yield part, key.removeprefix(f"{part}.") if within else key, a, b


def _layers(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> Iterator[tuple[str, str, Any, Any]]:
    """The number of layers, and fields that differ, each with the layers in which they do so alike."""
    if len(before) != len(after):
        yield "layers", "count", len(before), len(after)
    alike: dict[tuple[str, Any, Any], list[int]] = {}
    for layer, (one, other) in enumerate(zip(before, after, strict=False)):
        flat_one, flat_other = flat(one, ""), flat(other, "")
        for key in dict.fromkeys((*flat_one, *flat_other)):
            a, b = flat_one.get(key), flat_other.get(key)
            if a != b:
                alike.setdefault((key.lstrip("."), a, b), []).append(layer)
    for (key, a, b), layers in alike.items():
        yield "layers", f"{spans(layers)}: {key}", a, b


def spans(numbers: list[int]) -> str:
    """1, 2, 3, 7 → "1-3, 7"; what would be long is counted."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    if len(runs) > 6:
        return f"{len(numbers)} layers from {numbers[0]} to {numbers[-1]}"
    return ", ".join(str(start) if start == end else f"{start}-{end}" for start, end in runs)


def files(report: InspectReport) -> dict[str, Any]:
    """How many weight files, their digests where they are known, and a sign of what small files hold."""
    found: dict[str, Any] = {"weight files": len(report.files), "weight files, bytes": sum(file.bytes for file in report.files)}
    found |= {file.name: f"sha256 {file.sha256[:12]}" for file in report.files if file.sha256}
    for entry in report.provenance.inputs:
        name = Path(entry.path).name
        if name not in COUNTED and not name.endswith(".safetensors"):
            found[name] = f"{entry.bytes} bytes, sha256 {entry.sha256[:12]}"
    return found


def findings(report: InspectReport) -> dict[str, str]:
    """Code and subject → what was found; what passed is left out."""
    return {f"{row.code} {row.subject}": f"{row.status}: {row.found}" for row in report.findings if row.status != "pass"}
