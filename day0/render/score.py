"""How likely a model finds the tokens."""

from rich.console import RenderableType
from rich.text import Text

from day0.render.numbers import seconds
from day0.render.table import stack, table
from day0.spec.reports.score import ScoreReport

SHOWN = 20  # sequences in the table


def score(report: ScoreReport) -> RenderableType:
    """One line a sequence, and the perplexity of all."""
    shown = table("sequence", "tokens", "loss", right=("sequence", "tokens", "loss"))
    for index, row in enumerate(report.sequences[:SHOWN]):
        shown.add_row(str(index), str(row.tokens), "–" if row.loss is None else f"{row.loss:.4f}")
    more = len(report.sequences) - SHOWN
    total = sum(row.tokens for row in report.sequences)
    head = f"{report.model} · {total} tokens in {seconds(report.seconds)} · {report.executor} on {report.device}, {report.dtype}"
    return stack(
        Text(head, style="bold"),
        shown,
        Text(f"and {more} more") if more > 0 else None,
        Text(f"perplexity {report.perplexity:.4f}") if report.perplexity is not None else None,
        Text(f"logits in {report.out}") if report.out else None,
    )
