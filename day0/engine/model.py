"""A forward pass over the whole model: tokens in, hidden states and logits out."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from day0.engine.bind import Bound
from day0.engine.layer import BoundLayer
from day0.engine.state import State
from day0.engine.vision import Vision
from day0.engine.weights import Weights
from day0.spec.model import Model
from day0.spec.ops import PHASES
from day0.spec.rope import Rope
from day0.spec.step import Step, Turn


class Forward:
    """A model bound to weights, operators and state. Every method runs without gradients."""

    def __init__(self, model: Model, weights: Weights, bound: Bound, state: State, vision: Vision | None = None) -> None:
        self.model, self.weights, self.vision = model, weights, vision
        self._layers = [BoundLayer(layer, bound, state.layer(layer.index)) for layer in model.layers]
        self._ends = {phase: bound.at(None, "", phase) for phase in PHASES}
        self._collapse = {phase: bound.at(None, "collapse", phase) for phase in PHASES}
        self._frequencies = frequencies(model, state.device)
        self.mode: AbstractContextManager[Any] = nullcontext()  # that steps run under

    @torch.inference_mode()
    def hidden(self, step: Step) -> Tensor:
        """Normed hidden states [outputs, D] of the tokens whose logits are wanted; writes the state of all tokens."""
        with self.mode:
            return self._hidden(step)

    def _hidden(self, step: Step) -> Tensor:
        segments = step.segments()
        for segment in segments:
            segment.rotary = turn(segment.positions_T, self._frequencies, segment.axes_3T)
        ops, ends = self._ends[segments[-1].phase], self.weights.ends
        x_TD = ops.embedding(*self.weights.table(self._embedded(step.tokens_T)))
        if self.model.embed_scale != 1:
            x_TD = x_TD * self.model.embed_scale
        images = step.images
        if images is not None:
            x_TD = x_TD.index_copy(0, images.rows_N, images.embeddings_ND)
        stream: Any = self._layers[0].open(x_TD)
        del x_TD
        for index, (layer, w) in enumerate(zip(self._layers, self.weights.layers(), strict=True)):
            stream = layer(stream, w, step)
            if images is not None and index < len(images.taps):
                stream = stream.index_add(0, images.rows_N, images.taps[index])
        x_TD = self._layers[-1].close(stream, getattr(ends, "collapse", None), self._collapse[segments[-1].phase])
        outputs_OD = x_TD if step.outputs.shape[0] == x_TD.shape[0] else x_TD[step.outputs]
        if self.model.norm is None:
            return outputs_OD
        return ops.rms_norm(outputs_OD, ends.norm, self.model.norm.eps, self.model.norm.plus_one)

    def _embedded(self, tokens_T: Tensor) -> Tensor:
        """Ids whose rows stand for the tokens."""
        if not self.model.placeholders:
            return tokens_T
        return tokens_T.masked_fill(torch.isin(tokens_T, torch.tensor(self.model.placeholders, device=tokens_T.device)), 0)

    @torch.inference_mode()
    def logits(self, hidden_OD: Tensor) -> Tensor:
        """Float32 logits [outputs, W]."""
        linear = self._ends["decode"].linear
        with self.mode:
            pieces = [linear(hidden_OD, rows).float() for rows in self.weights.head()]
            logits_OW = pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=-1)
            return logits_OW if self.model.logit_scale == 1 else logits_OW * self.model.logit_scale


def turn(positions_T: Tensor, frequencies: dict[Rope, Tensor], axes_3T: Tensor | None = None) -> dict[Rope, Turn]:
    """Angles of every position, for each rope with its radians a token [A]; `axes_3T` as in `Segment`."""
    turns = {}
    for rope, frequencies_A in frequencies.items():
        places = positions_T if axes_3T is None or not rope.axes else axes_3T[list(rope.axes)].T
        turns[rope] = Turn.of(places, frequencies_A, rope.attention_factor)
    return turns


def frequencies(model: Model, device: torch.device) -> dict[Rope, Tensor]:
    """Radians a token of every rope that the model uses."""
    ropes = {rope for layer in model.layers for _, part in layer.parts() if (rope := getattr(part, "rope", None)) is not None}
    return {rope: torch.tensor(rope.frequencies(), device=device) for rope in ropes}
