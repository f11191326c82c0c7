"""Plant every fault and every harmless variant, and write what the validator said: python -m tests.mutation docs/validator.md"""

import sys
from collections.abc import Iterator
from pathlib import Path

import torch

from tests.mutation.nulls import NULLS, worst
from tests.mutation.test_mutation import CATALOGUE

INTRO = """# What `day0 validate` finds

A validator is judged like any instrument: by what it finds and by what it leaves alone. `python -m tests.mutation docs/validator.md` plants
every fault below in a healthy tiny model, validates it, and writes this page; `make test-all` runs the same catalogue, `make test` a part
of it. A fault counts as found when the first thing that the report calls wrong is on the right rung, in the right layer and the right part.

The ladder is climbed from the bottom: weights (stored, then as the engine holds them), operators (each implementation against its
reference in float64), layers (on the reference's hidden states, with its choices forced, in one step and in chunks and single tokens) and
model (logits; where the plan has a tower, what it makes of an image, and the logits of a prompt with it). What a layer receives ready-made
is judged on its own: rotations up to the end of the context, positions, state, choices that layers share. Where a layer is wrong, both
layers run again and every operator's result is looked for among the tensors that pass through the reference's layer, in whatever layout;
the first that is not there, and from which nothing that is there was computed, is named. Where that operator has an activation, its usual
variants are tried, with the numbers of the configuration: "right with limit 7" says what the model's description lacks, "computed with no
limit" what an implementation leaves out.

A reference may be wrong itself. Every layer is therefore run once more by our own definition, which is the operators' references without a
kernel, and both references are compared with each other: where they disagree that is a finding of its own (D0712), which says with which of
both the layer as it runs here agrees. The sequence is longer than every window and every sparse choice where work and memory allow it; what
a sequence, given or limited by the model's context, is too short to show is named (D0805).

The operator is a hint and not a verdict: where the reference multiplies by a constant at another place than our block does, the one
between both places may be named instead. `ratio` is an error in units of the reference's own error in the same type, or of what one
rounding explains. Discrete choices are judged by the reference's rule on our own scores, never by how often they differ.

The limits are those of the error budget, and are judged with a null that every run measures: what the ratio is of the reference itself
when its products are summed in the opposite order and for half of the batch at a time (of an operator: of its reference in the type of the
call). A limit is never nearer to the null than by a third. The harmless variants of our own engine at the end hold the same: 1.3 times the
worst ratio of a variant must stay below the limit, which `tests/mutation` checks.
"""


def faults() -> Iterator[str]:
    """Rows of the first table."""
    for group, planted in CATALOGUE.items():
        yield from ("", f"## Faults: {group}", "", "| fault | model | rung | found |", "|---|---|---|---|")
        for name, fault in planted.items():
            report = fault.run()
            missed = fault.missed(report)
            found = report.first_divergence
            line = found.line.removeprefix("first wrong at ") if found else "nothing"
            print("missed" if missed else "found ", name, flush=True)
            yield f"| {name} | {fault.model} | {found.rung if found else ''} | {'**missed**: ' if missed else ''}{line} |"


def nulls() -> Iterator[str]:
    """Rows of the second table."""
    yield from ("", "## No faults", "", "| variant | verdict | worst ratio of a layer's part (limit 1.5) | null |", "|---|---|---|---|")
    for name, null in NULLS.items():
        report = null.run()
        print(report.verdict, name, flush=True)
        null = max((row.errors.null for row in report.layer_errors if row.dtype != "float32"), default=0.0)
        yield f"| {name} | {report.verdict} | {worst(report):.2f} | {null:.2f} |"


def main() -> None:
    torch.set_num_threads(1)
    Path(sys.argv[1]).write_text("\n".join([INTRO.rstrip(), *faults(), *nulls()]) + "\n")


if __name__ == "__main__":
    main()
