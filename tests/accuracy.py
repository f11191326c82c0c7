"""How far the logits of every checkpoint of the zoo are from those of its reference, as a table.

The command `python -m tests.accuracy docs/accuracy.md` measures all of them and writes it; with names behind the file, the lines of
these checkpoints are measured anew and put among the others.
"""

import platform
import re
import sys
from pathlib import Path

import torch
import transformers

import day0
from tests.engine.opened import expected, resident
from tests.engine.test_logits import PROMISED, TOLERANCE, errors, greedy_equal, tolerance
from tests.zoo import checkpoint, every

MANNERS = ("whole", "chunks of 1", "chunks of 7", "chunks of 64", "decode", "mixed")
HEAD = """# Accuracy

Tiny checkpoints in the layouts of public releases, run by day0's engine in float32 on a processor, against logits that transformers
computed from the same files in float32 (Kimi K3, which it does not know: a naive reference in float64). An error is the largest of any
logit of any token, divided by the range of the logits; {tolerance:.0e} is what the tests allow, {promised:.0e} for Kimi K3. Prompts have
{lengths} tokens.

* *whole*: each prompt in one step, alone. *chunks of n*: prompts side by side, n tokens of each in a step.
* *decode*: side by side, all but the first token one by one.
* *mixed*: four prompts of different lengths in one batch, some of them still read in chunks while others decode.
* *greedy*: whether the continuation is the same tokens, for each prompt alone and for all in one batch.

Measured with day0 {day0}, torch {torch}, transformers {transformers}, Python {python}, by

    python -m tests.accuracy docs/accuracy.md
"""
LINE = re.compile(r"\| ([\w.-]+) \| (.*) \| (equal|\*\*differs\*\*) \|")
Rows = dict[str, tuple[dict[str, float], bool]]


def published(page: str) -> Rows:
    """Checkpoint → (manner → error, whether continuations are equal), from a page that this module wrote."""
    found = (match for line in page.splitlines() if (match := LINE.fullmatch(line)))
    return {m[1]: (dict(zip(MANNERS, map(float, m[2].split(" | ")), strict=True)), m[3] == "equal") for m in found}


def table(rows: Rows) -> str:
    """One line a checkpoint; the worst at the end."""
    lines = [f"| checkpoint | {' | '.join(MANNERS)} | greedy |", f"|---|{'---:|' * len(MANNERS)}---|"]
    for name, (found, same) in sorted(rows.items()):
        lines.append(f"| {name} | {' | '.join(f'{found[manner]:.1e}' for manner in MANNERS)} | {'equal' if same else '**differs**'} |")
    worst = (f"{max(found[manner] for found, _ in rows.values()):.1e}" for manner in MANNERS)
    return "\n".join([*lines, f"| **worst of {len(rows)}** | {' | '.join(worst)} | {sum(same for _, same in rows.values())} equal |"])


def head(name: str) -> str:
    """What stands above the table; all checkpoints have prompts of the same lengths as the named one."""
    lengths = [str(len(prompt)) for prompt in expected(checkpoint(name)).prompts]
    return HEAD.format(
        tolerance=TOLERANCE, promised=PROMISED, lengths=f"{', '.join(lengths[:-1])} and {lengths[-1]}", day0=day0.__version__,
        torch=torch.__version__, transformers=transformers.__version__, python=platform.python_version(),
    )  # fmt: skip


def main(arguments: list[str]) -> int:
    """Exit code 1 when an error is above what the tests allow, or a continuation differs."""
    out, chosen = Path(arguments[0]), arguments[1:] or every()
    rows = published(out.read_text(encoding="utf-8")) if arguments[1:] and out.exists() else {}
    rows = {name: row for name, row in rows.items() if name in every()}
    for name in chosen:
        folder = checkpoint(name)
        rows[name] = (errors(folder), greedy_equal(folder))
        resident.cache_clear()
        print(f"{name}: {max(rows[name][0].values()):.1e}", file=sys.stderr, flush=True)
        out.write_text(f"{head(name)}\n{table(rows)}\n", encoding="utf-8")
    return 0 if all(same and max(found.values()) <= tolerance(name) for name, (found, same) in rows.items()) else 1


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main(sys.argv[1:] or ["docs/accuracy.md"]))
