"""What a file in `checks/` exports: one question that has a verdict, and its documentation, which is the file's docstring."""

import re
from collections.abc import Callable, Iterator
from typing import Any, Literal

from day0.spec.finding import Finding
from day0.spec.record import record

Scope = Literal[
    "checkpoint", "release", "likely", "digests", "samples", "norms", "plan", "weight", "held", "operator", "layer", "selection", "rotary",
    "reads", "reused", "state", "positions", "references", "uncompared", "norm", "logits",
    "service", "switch", "tower",
]  # fmt: skip

HUNDREDS = {"inspect": ("d01", "d02", "d03"), "plan-memory": ("d04",)}  # stage → how the codes of its checks begin


@record
class Check:
    """One check. `D01…`: shard files, `D02…`: index and companions, `D03…`: the model's structure, `D04…`: plans, `D05…` to `D08…`: rungs of
    validate."""

    code: str  #: "D0204"
    title: str  #: what it proves, one sentence
    why: str  #: what goes wrong without it
    remedy: str  #: what to do when it fails
    example: str  #: a finding of it, in words; "" when there is none
    scope: Scope  #: what `run` is given: a Checkpoint, a Release, a Likely where no family reads it, or one kind of `spec.evidence`
    run: Callable[[Any], Iterator[Finding]]  #: findings; none when all is well


def check(module: str, text: str | None, run: Callable[[Any], Iterator[Finding]], scope: Scope = "checkpoint") -> Check:
    """The check of a file `dNNNN_name.py`, documented by its docstring: a sentence, then paragraphs "Why:", "Remedy:", "Example:"."""
    parts = re.fullmatch(r"(.+?)\n\s*Why: (.+?)\n\s*Remedy: (.+?)(?:\n\s*Example: (.+))?", text or "", re.DOTALL)
    assert parts, f"{module}: the docstring must be a sentence, Why: …, Remedy: … and an Example: …"
    title, why, remedy, example = (" ".join((part or "").split()) for part in parts.groups())
    return Check(code=code_of(module), title=title, why=why, remedy=remedy, example=example, scope=scope, run=run)


def at_opening(module: str, text: str | None) -> Check:
    """A check that is made while a checkpoint is opened: its findings are there already."""
    code = code_of(module)
    return check(module, text, lambda checkpoint: (finding for finding in checkpoint.findings if finding.code == code))


def code_of(module: str) -> str:
    """`day0.checks.d0204_scale_grid` → "D0204"."""
    return module.rpartition(".")[2].partition("_")[0].upper()
