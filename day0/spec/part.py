"""What a file in `parts/` exports: a sublayer's weights, its state and its operator calls, each said once."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from day0.spec.model import TensorSpec
from day0.spec.ops import Phase, Site
from day0.spec.record import record
from day0.spec.state import StateSpec


@record
class Part:
    """The three functions of a sublayer; `spec` is the record that the same file defines."""

    tensors: Callable[[Any, int], Iterator[TensorSpec]]  #: (spec, model width D) → weights, names relative to the part
    state: Callable[[Any, str], Iterator[StateSpec]]  #: (spec, compute dtype) → what is kept between steps
    sites: Callable[[Any, int, Phase], Iterator[Site]]  #: (spec, model width D, phase) → operator calls, without layer, dtype and formats
    cut: tuple[str, ...] = ()  #: fields of the spec that ranks of tensor parallelism share; "attention.heads" is one of a record in it

    def of_rank(self, spec: Any, ranks: int) -> Any:
        """The sublayer that the first of `ranks` has: whole heads and widths, at least one of each."""
        for name in self.cut if ranks > 1 else ():
            spec = _shared(spec, name, ranks)
        return spec


def _shared(spec: Any, name: str, ranks: int) -> Any:
    outer, _, inner = name.partition(".")
    held = getattr(spec, outer)
    if inner:
        return replace(spec, **{outer: _shared(held, inner, ranks)})
    return replace(spec, **{outer: held[: -(-len(held) // ranks)] if isinstance(held, tuple) else -(-held // ranks)})
