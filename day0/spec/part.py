"""What a file in `parts/` exports: a sublayer's weights, its state and its operator calls, each said once."""

from collections.abc import Callable, Iterator
from typing import Any

from day0.spec.model import TensorSpec
from day0.spec.ops import Phase, Site
from day0.spec.placement import Placement
from day0.spec.record import record
from day0.spec.state import StateSpec


def whole(spec: Any, place: Placement) -> Any:
    """Every rank computes all of it."""
    return spec


@record
class Part:
    """The functions of a sublayer; `spec` is the record that the same file defines."""

    tensors: Callable[[Any, int], Iterator[TensorSpec]]  #: (spec, model width D) → weights, names relative to the part
    state: Callable[[Any, str], Iterator[StateSpec]]  #: (spec, compute dtype) → what is kept between steps
    sites: Callable[[Any, int, Phase], Iterator[Site]]  #: (spec, model width D, phase) → operator calls, without layer, dtype and formats
    share: Callable[[Any, Placement], Any] = whole  #: (spec, placement) → what one rank computes, as a sublayer of its own
