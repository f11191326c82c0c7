"""A release at one glance: what it is, how large, how it is stacked, where its bytes are, what is unusual."""

from itertools import groupby

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from day0.render.numbers import count, size, tokens
from day0.render.table import facts, mark, stack, table, verdict
from day0.spec.reports.inspect import InspectReport, LayerRow

BAR = 40  # columns of all bytes
STRIP = 96  # layers drawn one by one in a line
SHADES = "░▒▓█"


def inspect(report: InspectReport) -> RenderableType:
    """Verdict, figures, layers, bytes, findings."""
    return stack(head(report), facts(figures(report)), Text(), strip(report), Text(), bytes_by(report), findings(report))


def head(report: InspectReport) -> RenderableType:
    model, parameters = report.model, report.parameters
    active = f", {count(parameters.active)} active" if parameters.active not in (None, parameters.total) else ""
    family = model.family or f"no family reads {model.model_type!r}"
    sizes = f"{count(parameters.total)} parameters{active} · {size(report.bytes.total)} as released"
    return stack(verdict(f"{model.name} is {report.verdict}", report.verdict == "sound"), Text(f"{family} · {sizes}"), Text())


def figures(report: InspectReport) -> list[tuple[str, str]]:
    """What it is, in words; unknown figures are left out."""
    model, prediction = report.model, report.parameters.prediction
    lengths = ((model.context, "tokens of context"), (model.vocab, "rows of vocabulary"))
    what = [word for word in (model.dtype, *(f"{tokens(number)} {unit}" for number, unit in lengths if number)) if word]
    unread = report.config.unread
    token = report.tokenizer
    entries = f", {tokens(token.tokens)} tokens" if token and token.tokens is not None else ""
    rows = [
        ("computes in", " · ".join(what)),
        ("beside the stack", f"{model.prediction_layers} × prediction layer, {count(prediction)} parameters" if prediction else ""),
        ("not run", ", ".join(f"{tower} tower, {count(weights)} parameters" for tower, weights in report.parameters.towers.items())),
        ("tokenizer", f"{token.file}{entries}" if token else "none"),
        ("chat template", report.template.file if report.template else "none"),
        ("configuration", f"{len(report.config.read)} keys read, {len(unread)} not"),
        ("files", f"{len(report.files)} with {size(sum(file.bytes for file in report.files))}"),
    ]
    return [(name, text) for name, text in rows if text]


def strip(report: InspectReport) -> RenderableType | None:
    """The stack as one sign a layer, and in words."""
    if not report.layers:
        return None
    kinds = list(dict.fromkeys(kind(layer) for layer in report.layers))
    signs = {name: SHADES[place % len(SHADES)] for place, name in enumerate(kinds)}
    runs = [(name, len(list(same))) for name, same in groupby(map(kind, report.layers))]
    words = ", ".join(f"{length} × {signs[name]} {name}" for name, length in runs) if len(runs) <= 8 else legend(report, signs)
    drawn = "".join(signs[kind(layer)] for layer in report.layers)
    lines = [drawn[start : start + STRIP] for start in range(0, len(drawn), STRIP)]
    return stack(Text("\n".join(lines), style="cyan"), Text(words))


def kind(layer: LayerRow) -> str:
    """One layer in words: mla + moe_ffn 8 of 256."""
    experts = f" {layer.top_k} of {layer.experts}" if layer.experts else ""
    return " + ".join(filter(None, (layer.mixer, layer.ffn and layer.ffn + experts))) or "not understood"


def legend(report: InspectReport, signs: dict[str, str]) -> str:
    names = [kind(layer) for layer in report.layers]
    return ", ".join(f"{names.count(name)} × {sign} {name}" for name, sign in signs.items())


def bytes_by(report: InspectReport) -> Table | None:
    """Bytes by role, and the formats they are in."""
    total = report.bytes.total
    if not total:
        return None
    made = table("bytes", "size", "share", "", right=("size", "share"))
    for name, held in report.bytes.by_role.items():
        made.add_row(name, size(held), share(held, total), "█" * round(BAR * held / total) or "▏")
    made.add_section()
    for name, held in report.bytes.by_format.items():
        made.add_row(name, size(held), share(held, total), "")
    return made


def share(held: int, total: int) -> str:
    return f"{100 * held / total:.1f} %"


def findings(report: InspectReport) -> Table | None:
    """What a person should look at; what passed is left out."""
    shown = [finding for finding in report.findings if finding.status != "pass"]
    if not shown:
        return None
    made = Table.grid(padding=(0, 1))
    made.add_row("", "")
    for finding in sorted(shown, key=lambda finding: ("fail", "unknown", "warn").index(finding.status)):
        expected = f", expected {finding.expected}" if finding.expected else ""
        hint = f"\n  {finding.hint}" if finding.hint else ""
        made.add_row(mark(finding.status), Text(f"{finding.subject}: {finding.found}{expected} ({finding.code}){hint}"))
    return made
