"""Records which torch operators every implementation, weight format and sublayer uses, by running the checkpoints of the zoo.

The command `python -m tests.torch_operators templates/torch_operators.yaml [name ...]` writes the table that `day0 map-ops` reads. Each
checkpoint runs in two types: with the implementations of this processor, with references alone, and with kernels that are compiled when
they are needed, which the zoo is too small for.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from day0.engine import layer
from day0.engine.arguments import bound, site
from day0.engine.bind import Function, Place
from day0.engine.calls import call_key, narrow, part_key
from day0.engine.model import Forward
from day0.engine.packed import Group
from day0.engine.score import score
from day0.engine.watch import BETWEEN, Watch
from day0.kernels.c.worth import LEAST
from day0.spec.packed import Packed
from day0.spec.registry import ops
from day0.spec.reports.map_ops import MapOpsReport
from day0.spec.target import Uses
from tests.engine import opened
from tests.zoo import checkpoint, names

PROMPTS = [[7, 3, 5, 2, 9, 4, 6, 8, 1, 3, 2] * 4, [3, 5, 4]]
CHUNK = 16  # tokens of a step, few enough for windows to wrap
Seen = dict[tuple[str, str], Uses]


class Recorder(Watch):
    """Knows callers by what `day0.engine.calls` knows them by."""

    def __init__(self, mapped: MapOpsReport) -> None:
        super().__init__()
        self._kernels = {(row.layer, row.place, row.phase, row.op, row.format): row.kernel or row.op for row in mapped.sites}

    def wrap(self, place: Place, op: str, function: Function) -> Function:
        def recorded(*args: Any, **kwargs: Any) -> Any:
            with self.calling(self.caller_of(place, op, bound(ops().get(op), args, kwargs))):
                return function(*args, **kwargs)

        return recorded

    def caller_of(self, place: Place, op: str, arguments: Mapping[str, Any]) -> tuple[str, str]:
        """Implementation and call."""
        called = site(ops().get(op), dict(arguments), dtype_of(arguments), place[2])
        weights = [value for value in arguments.values() if isinstance(value, Packed | Group)]
        form = "+".join(sorted({weight.format for weight in weights})) or "plain"
        grouped = any(isinstance(weight, Group) and weight.joined is None for weight in weights) or (op == "experts" and form != "plain")
        kernel = self._kernels.get((place[0], place[1], place[2], op, form)) or self._kernels[(place[0], place[1], place[2], op, "plain")]
        options = dict(called.options) | narrow(called) | {"bias": arguments.get("bias_O") is not None}
        return kernel, call_key(place[2], called.dtype, options, grouped)


def dtype_of(arguments: Mapping[str, Any]) -> str:
    """Compute type of a call: that of its first floating argument."""
    given = (value for value in arguments.values() if isinstance(value, torch.Tensor) and value.is_floating_point())
    return str(next(given).dtype).removeprefix("torch.")


class Named:
    """A block whose own torch operators count for its kind."""

    def __init__(self, block: Any, part: Any, watch: Watch, dtype: str, phase: Any) -> None:
        self._block, self._part, self._watch, self._dtype, self._phase = block, part, watch, dtype, phase

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._block, name)

        def called(*args: Any, **kwargs: Any) -> Any:
            phase = name if name in ("prefill", "decode") else self._phase()
            with self._watch.calling((f"part:{self._part.kind}", part_key(self._part, phase, self._dtype))):
                return method(*args, **kwargs)

        return called


@contextmanager
def named(watch: Watch, dtype: str) -> Iterator[None]:
    """Blocks, decoding and steps under their names."""
    block, decode, hidden = layer._block, Packed.decode, Forward.hidden
    phase = ["prefill"]

    def step(self: Forward, step: Any) -> Any:
        phase[0] = "prefill" if step.prefill else "decode"
        return hidden(self, step)

    def decoded(self: Packed, out: torch.Tensor) -> torch.Tensor:
        kinds = sorted({str(part.dtype).removeprefix("torch.") for part in self.parts.values()})
        with watch.calling((f"format:{self.format}", " ".join([str(out.dtype).removeprefix("torch."), *kinds]))):
            return decode(self, out)

    def proxied(part: Any) -> Any:
        return None if part is None else Named(block(part), part, watch, dtype, lambda: phase[0])

    with mock.patch.object(layer, "_block", proxied), mock.patch.object(Packed, "decode", decoded), mock.patch.object(Forward, "hidden", step):
        yield


def record(folder: Path, dtype: str) -> Seen:
    """Everything that one checkpoint uses, in both phases, alone and side by side."""
    opened.planned.cache_clear()
    _, mapped = opened.planned(folder, opened.load(dtype=dtype))
    watch = Recorder(mapped)
    with named(watch, dtype):
        forward, state = opened.assembled(folder, wrap=watch.wrap, dtype=dtype, chunk=CHUNK)
        forward.mode = watch
        for prompts in (PROMPTS, PROMPTS[:1]):
            score(forward, state, prompts, chunk=CHUNK, decode_from=42)
    callers = {(("forward", dtype) if caller == BETWEEN else caller): caller for caller in watch.operators}
    return {
        name: Uses(operators=frozenset(watch.operators[caller]), types=frozenset(watch.types[caller])) for name, caller in callers.items()
    }  # fmt: skip


def table(seen: Seen) -> str:
    """The file's text."""
    sets = sorted({(" ".join(sorted(one.operators)), " ".join(sorted(one.types))) for one in seen.values()})
    number = {pair: place for place, pair in enumerate(sets)}
    lines = ["# Written by `python -m tests.torch_operators`: what was seen when the checkpoints of tests/zoo ran on a processor.", "sets:"]
    lines += [f"- ['{words}', '{types}']" for words, types in number]
    lines.append("calls:")
    for name in sorted({name for name, _ in seen}):
        lines.append(f'  "{name}":')
        for key, one in sorted((key, one) for (other, key), one in seen.items() if other == name):
            lines.append(f'    "{key}": {number[" ".join(sorted(one.operators)), " ".join(sorted(one.types))]}')
    return "\n".join(lines) + "\n"


@contextmanager
def chosen_for_all(*, forced: str = "", least: int = LEAST) -> Iterator[None]:
    """What decides who runs a call: references alone where forced; from which size on kernels are compiled."""
    with mock.patch.dict(os.environ, {"DAY0_OPS": forced}), mock.patch("day0.kernels.c.worth.LEAST", least):
        yield


def main(arguments: list[str]) -> None:
    out, chosen = Path(arguments[0]), arguments[1:] or names()
    seen: Seen = {}
    for name in chosen:
        for how in ({}, {"forced": "reference"}, {"least": 0}):
            with chosen_for_all(**how):
                for dtype in ("bfloat16", "float32"):
                    for caller, used in record(checkpoint(name), dtype).items():
                        seen[caller] = Uses.union([used, seen.get(caller, used)])
        print(name, file=sys.stderr)
        out.write_text(table(seen), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
