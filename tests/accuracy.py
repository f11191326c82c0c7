"""How far the logits of every checkpoint of the zoo are from those that transformers computed, as a table.

The command `python -m tests.accuracy docs/accuracy.md [name ...]` writes it; without a name all checkpoints run.
"""

import platform
import sys
from pathlib import Path

import torch
import transformers

import day0
from tests.engine.opened import expected, resident
from tests.engine.test_logits import TOLERANCE, errors, greedy_equal
from tests.zoo import checkpoint, names

HEAD = """# Accuracy

Tiny checkpoints in the layouts of public releases, run by day0's engine in float32 on a processor, against logits that transformers
computed from the same files in float32. An error is the largest of any logit of any token, divided by the range of the logits; {tolerance:.0e}
is what the tests allow. Prompts have {lengths} tokens.

* *whole*: each prompt in one step, alone. *chunks of n*: prompts side by side, n tokens of each in a step.
* *decode*: side by side, all but the first token one by one.
* *mixed*: four prompts of different lengths in one batch, some of them still read in chunks while others decode.
* *greedy*: whether the continuation is the same tokens, for each prompt alone and for all in one batch.

Measured with day0 {day0}, torch {torch}, transformers {transformers}, Python {python}, by

    {command}
"""


def table(rows: list[tuple[str, dict[str, float], bool]]) -> str:
    """One line a checkpoint; the worst at the end."""
    manners = list(rows[0][1])
    lines = [f"| checkpoint | {' | '.join(manners)} | greedy |", f"|---|{'---:|' * len(manners)}---|"]
    for name, found, same in rows:
        lines.append(f"| {name} | {' | '.join(f'{found[manner]:.1e}' for manner in manners)} | {'equal' if same else '**differs**'} |")
    worst = (f"{max(found[manner] for _, found, _ in rows):.1e}" for manner in manners)
    return "\n".join([*lines, f"| **worst of {len(rows)}** | {' | '.join(worst)} | {sum(same for *_, same in rows)} equal |"])


def main(arguments: list[str]) -> int:
    """Exit code 1 when an error is above what the tests allow, or a continuation differs."""
    out, chosen = Path(arguments[0]), arguments[1:] or names()
    rows = []
    for name in chosen:
        folder = checkpoint(name)
        rows.append((name, errors(folder), greedy_equal(folder)))
        resident.cache_clear()
        print(f"{name}: {max(rows[-1][1].values()):.1e}", file=sys.stderr)
    lengths = [str(len(prompt)) for prompt in expected(checkpoint(chosen[0])).prompts]
    head = HEAD.format(
        tolerance=TOLERANCE, lengths=f"{', '.join(lengths[:-1])} and {lengths[-1]}", day0=day0.__version__, torch=torch.__version__,
        transformers=transformers.__version__, python=platform.python_version(), command=f"python -m tests.accuracy {' '.join(arguments)}",
    )  # fmt: skip
    out.write_text(f"{head}\n{table(rows)}\n", encoding="utf-8")
    return 0 if all(same and max(found.values()) <= TOLERANCE for _, found, same in rows) else 1


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main(sys.argv[1:] or ["docs/accuracy.md"]))
