"""What files in `blocks/` export: the computation of a sublayer, written on operators.

A block holds no tensors between calls and knows no device, no other layer, and no type but that of what it is given. Its arguments:
`part`, the sublayer's record; `w`, its weights by name; `state`, its layer's view of the state manager; `ops`, its bound operators.
"""

from collections.abc import Callable
from typing import Any

from day0.spec.record import record


@record
class MixerBlock:
    """Mixes tokens; prefill and decode are separate paths."""

    prefill: Callable[..., Any]  #: (x_TD, part, w, state, segment, ops) → y_TD
    decode: Callable[..., Any]  #: the same for one new token a sequence


@record
class FfnBlock:
    """Acts on each token alone."""

    run: Callable[..., Any]  #: (x_TD, part, w, step, ops) → y_TD


@record
class ResidualBlock:
    """Carries the stream past the sublayers; the stream may be more than one vector a token."""

    open: Callable[..., Any]  #: (x_TD, part) → stream
    before: Callable[..., Any]  #: (stream, place, part, w, ops) → x_TD, the input of the sublayer at `place` ("mixer" or "ffn")
    after: Callable[..., Any]  #: (stream, y_TD, place, part, w, ops) → stream
    close: Callable[..., Any]  #: (stream, part, w, ops) → x_TD; `w` and `ops` are those of `Model.collapse`, or None


@record
class EncoderBlock:
    """A step of a tower outside its layers."""

    run: Callable[..., Any]  #: (x_TI, part, w, grid, ops) → y; `grid` is (rows, columns) of the view's patches
