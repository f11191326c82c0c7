"""A release at one glance: what it is, how large, how it is stacked, where its bytes are, what is unusual."""

from itertools import groupby
from typing import TYPE_CHECKING

from rich.bar import Bar
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from day0.render.numbers import count, size, tokens
from day0.render.table import facts, mark, stack, table, verdict
from day0.spec.reports.inspect import InspectReport, LayerRow

if TYPE_CHECKING:
    from day0.stages.tensors import TensorKind

BAR = 40  # columns of all bytes, where there is room
SIGNS = "░▓▒█○●◇◆△▲□■abcdefghijklmnopqrstuvwxyz"  # of kinds of layers
EACH = 3  # findings of one code that are shown
NAMED = 6  # configuration keys that are named
STATUSES = ("fail", "unknown", "warn")  # in the order of their weight


def inspect(report: InspectReport) -> RenderableType:
    """Verdict, figures, layers, bytes, findings."""
    return stack(head(report), facts(figures(report)), Text(), strip(report), Text(), bytes_by(report), findings(report))


def head(report: InspectReport) -> RenderableType:
    model, parameters = report.model, report.parameters
    active = f", {count(parameters.active)} active" if parameters.active not in (None, parameters.total) else ""
    family = model.family or f"no family reads {model.model_type!r}"
    said = "as released" if report.basis == "tensors" else "by its configuration alone"
    open = f" ({count(parameters.least)} to {count(parameters.most)})" if parameters.least and parameters.most else ""
    sizes = f"{count(parameters.total)} parameters{open}{active} · {size(report.bytes.total)} {said}"
    return stack(verdict(f"{model.name} is {report.verdict}", report.verdict == "sound"), Text(f"{family} · {sizes}"), Text())


def figures(report: InspectReport) -> list[tuple[str, str]]:
    """What it is, in words; unknown figures are left out."""
    model, prediction = report.model, report.parameters.prediction
    lengths = ((model.context, "tokens of context"), (model.vocab, "rows of vocabulary"))
    what = [word for word in (model.dtype, *(f"{tokens(number)} {unit}" for number, unit in lengths if number)) if word]
    unread = [*report.config.unread]
    token = report.tokenizer
    entries = f", {tokens(token.tokens)} tokens" if token and token.tokens is not None else ""
    rows = [
        ("computes in", " · ".join(what)),
        ("beside the stack", f"{model.prediction_layers} × prediction layer, {count(prediction)} parameters" if prediction else ""),
        ("experts stored", ", ".join(stored_experts(report))),
        ("not run", ", ".join(f"{tower} tower, {count(weights)} parameters" for tower, weights in report.parameters.towers.items())),
        ("tokenizer", f"{token.file}{entries}" if token else "none"),
        ("chat template", report.template.file if report.template else "none"),
        ("configuration", f"{len(report.config.read)} keys read, {len(unread)} not{named(unread)}"),
        ("files", f"{len(report.files)} with {size(sum(file.bytes for file in report.files))}"),
        *came_from(report),
    ]
    return [(name, text) for name, text in rows if text]


def stored_experts(report: InspectReport) -> list[str]:
    """How, where it is not the same in all layers."""
    words = {"stack": "layers", "prediction": "prediction layers"}
    told = [f"{row.layout} in {row.layers} {words[row.where]}" for row in report.structure.expert_layouts]
    return told if len({row.layout for row in report.structure.expert_layouts}) > 1 else []


def named(keys: list[str]) -> str:
    """Some keys that nobody read."""
    more = f" and {len(keys) - NAMED} more" if len(keys) > NAMED else ""
    return f": {', '.join(keys[:NAMED])}{more}" if keys else ""


def came_from(report: InspectReport) -> list[tuple[str, str]]:
    """The address, and how little of it was read."""
    source = report.source
    if source is None:
        return []
    read = f"{size(source.bytes_read)} of {size(source.bytes_total)}, {100 * source.bytes_read / max(1, source.bytes_total):.2g} %"
    return [("at", source.url), ("read of it", read)]


def strip(report: InspectReport) -> RenderableType | None:
    """The stack as one sign a layer, and what each sign stands for."""
    if not report.layers:
        return None
    alike: dict[str, list[LayerRow]] = {}
    for layer in report.layers:
        alike.setdefault(kind(layer), []).append(layer)
    signs = dict(zip(alike, SIGNS + "?" * len(alike), strict=False))
    drawn = Text("".join(signs[kind(layer)] for layer in report.layers), style="cyan", overflow="fold")
    made = Table.grid(padding=(0, 1))
    for name, layers in alike.items():
        sizes = sorted({layer.parameters for layer in layers})
        each = " to ".join(dict.fromkeys(count(size) for size in (sizes[0], sizes[-1])))
        made.add_row(Text(signs[name], style="cyan"), Text(f"{len(layers)} ×"), Text(f"{name}, {each} parameters each"))
    return stack(drawn, made)


def kind(layer: LayerRow) -> str:
    """One layer in words: mla + moe_ffn 8 of 256."""
    experts = f" {layer.top_k} of {layer.experts}" if layer.experts else ""
    return " + ".join(filter(None, (layer.mixer, layer.ffn and layer.ffn + experts))) or "not understood"


def bytes_by(report: InspectReport) -> Table | None:
    """Bytes by role, and the formats they are in."""
    total = report.bytes.total
    if not total:
        return None
    made = table("bytes", "size", "share", "", right=("size", "share"))
    made.columns[1].no_wrap = made.columns[2].no_wrap = True
    made.columns[3].max_width = BAR
    for name, held in report.bytes.by_role.items():
        made.add_row(name, size(held), share(held, total), Bar(total, 0, held))
    made.add_section()
    for name, held in report.bytes.by_format.items():
        made.add_row(name, size(held), share(held, total), "")
    return made


def share(held: int, total: int) -> str:
    return f"{100 * held / total:.1f} %"


def findings(report: InspectReport) -> RenderableType | None:
    """What a person should look at, the worst first: some of each code, with what to do. What passed is left out."""
    shown = sorted((row for row in report.findings if row.status != "pass"), key=lambda row: (STATUSES.index(row.status), row.code))
    if not shown:
        return None
    made = Table.grid(padding=(0, 1))
    for (status, code), rows in groupby(shown, lambda row: (row.status, row.code)):
        told = list(rows)
        for place, row in enumerate(told[:EACH]):
            expected = f", expected {row.expected}" if row.expected else ""
            made.add_row(mark(status) if place == 0 else "", Text(f"{row.subject}: {row.found}{expected}", overflow="fold"))
        more = f"and {len(told) - EACH} more like it (--json lists all). " if len(told) > EACH else ""
        hint = f"{told[0].hint}. " if told[0].hint else ""
        made.add_row("", Text(f"{more}{hint}See `day0 explain {code}`.", style="dim"))
    return stack(Text(), made)


def layers(report: InspectReport) -> RenderableType:
    """Every layer, one a line."""
    made = table("layer", "kind", "weights", "active", "size", "formats", right=("layer", "weights", "active", "size"))
    for row in report.layers:
        active = "" if row.active is None else count(row.active)
        made.add_row(str(row.index), kind(row), count(row.parameters), active, size(row.bytes), ", ".join(row.formats))
    return stack(Text(), made)


def tensors(kinds: "list[TensorKind]") -> RenderableType:
    """Every pattern of names, one a line."""
    made = table("tensors", "count", "type", "shape", "format", "size", right=("count", "size"))
    for row in kinds:
        shapes = " ".join(str(list(shape)) for shape in row.shapes[:2]) + (" …" if len(row.shapes) > 2 else "")
        formats = ", ".join(row.formats) or "unread"
        made.add_row(Text(row.pattern), str(row.count), ", ".join(row.dtypes), Text(shapes), formats, size(row.bytes))
    return stack(Text(), made)
