"""One layer on hidden states: what `validate` calls once, `run` for every layer and `serve` for ever."""

from typing import Any

import torch
from torch import Tensor

from day0.engine.bind import Bound
from day0.engine.state import LayerState
from day0.spec.model import Layer
from day0.spec.registry import blocks
from day0.spec.step import Step


class BoundLayer:
    """A layer with its blocks, its operators and its view of the state; `tower` stands before its places where it is one of a tower's."""

    def __init__(self, layer: Layer, bound: Bound, state: LayerState | None, tower: str = "") -> None:
        self._layer, self._state = layer, state
        self._residual, self._ffn = _block(layer.residual), _block(layer.ffn)
        self._mixers = {"embedding": _block(layer.embedding), "mixer": _block(layer.mixer)}
        places = ("residual", "embedding", "mixer", "ffn")
        self._ops = {phase: {place: bound.at(layer.index, tower + place, phase) for place in places} for phase in ("prefill", "decode")}

    def open(self, x_TD: Tensor) -> Any:
        """Token embeddings → stream."""
        return self._residual.open(x_TD, self._layer.residual)

    def close(self, stream: Any, w: Any, ops: Any) -> Tensor:
        """Stream → hidden states for the final norm, with the weights and operators of `Model.collapse` where there are any."""
        return self._residual.close(stream, self._layer.residual, w, ops)

    def __call__(self, stream: Any, w: Any, step: Step, seen: dict[str, Tensor] | None = None) -> Any:
        """The stream after this layer; writes the state of the step's tokens. `seen` receives what each sublayer adds."""
        layer, residual = self._layer, self._residual
        ops = self._ops["prefill" if step.prefill else "decode"]
        if layer.embedding is not None:
            stream = stream + self._mix("embedding", stream, w.embedding, step)
        if layer.mixer is not None:
            x_TD = residual.before(stream, "mixer", layer.residual, w.residual, ops["residual"])
            y_TD = _note(seen, "mixer", self._mix("mixer", x_TD, w.mixer, step))
            stream = residual.after(stream, y_TD, "mixer", layer.residual, w.residual, ops["residual"])
            del y_TD
        if layer.ffn is not None:
            x_TD = residual.before(stream, "ffn", layer.residual, w.residual, ops["residual"])
            y_TD = _note(seen, "ffn", self._ffn.run(x_TD, layer.ffn, w.ffn, step, ops["ffn"]))
            stream = residual.after(stream, y_TD, "ffn", layer.residual, w.residual, ops["residual"])
        return stream

    def _mix(self, place: str, x: Tensor, w: Any, step: Step) -> Tensor:
        """Tokens of each phase on its own path."""
        mixer, part = self._mixers[place], getattr(self._layer, place)
        if step.prefill is None or step.decode is None:
            segment = step.segments()[0]
            path = getattr(mixer, segment.phase)
            y: Tensor = path(x, part, w, self._state, segment, self._ops[segment.phase][place])
            return y
        split = step.decode.tokens_T.shape[0]
        decoded = mixer.decode(x[:split], part, w, self._state, step.decode, self._ops["decode"][place])
        read = mixer.prefill(x[split:], part, w, self._state, step.prefill, self._ops["prefill"][place])
        return torch.cat((decoded, read))


def _note(seen: dict[str, Tensor] | None, place: str, y_TD: Tensor) -> Tensor:
    if seen is not None:
        seen[place] = y_TD
    return y_TD


def _block(part: Any) -> Any:
    return None if part is None else blocks().get(part.kind)
