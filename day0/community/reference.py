"""The released model as transformers runs it, whole or one layer at a time: what `validate` compares with."""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor

from day0.checkpoint.folder import Checkpoint
from day0.community.feed import ENDS, Feed
from day0.community.parts import noted as noted_parts
from day0.community.reads import HANDED
from day0.community.reads import noted as noted_reads
from day0.community.selection import Router, Selection, router_of, watched
from day0.community.skeleton import decoder, decoder_layers, skeleton


@dataclass(frozen=True, kw_only=True)
class LayerRun:
    """What one layer did with the tokens of one sequence."""

    hidden_TD: Tensor  #: stream that leaves the layer; [T, M, D] where the class carries several
    parts: dict[str, Tensor] = field(default_factory=dict)  #: "mixer" and "ffn" → what each added to the stream, see `parts.noted`
    selection: Selection | None = None  #: experts that were chosen; None in a dense layer
    router: Router | None = None  #: a copy of what chose them, for `selection.rule`; None in a dense layer
    reads: Tensor | None = None  #: what sparse attention read, as the class has it; `reads.read` puts it into our form
    handed: Tensor | None = None  #: choice that the layer hands on to the next one


class Reference:
    """A model class of transformers with weights from our loader. One sequence at a time, no padding, no cache."""

    def __init__(self, model: Any, feed: Feed, device: torch.device, resident: set[int]) -> None:
        self.model, self.feed, self.device, self._resident = model, feed, device, resident
        self._layers = decoder_layers(model)[1]
        self._hands_on = HANDED in inspect.signature(self._layers[0].forward).parameters

    @classmethod
    def open(
        cls, checkpoint: Checkpoint, dtype: torch.dtype, layers: range | None = None, device: torch.device | str = "cpu", towers: bool = False
    ) -> Self:  # fmt: skip
        """Build the class and make `layers` resident (all when None, none for `range(0)`); the others are read when they run.

        With no resident layer, of the embedding table and the head no more than the rows in use are held either. `towers`: for images too.
        """
        device = torch.device(device)
        model = skeleton(checkpoint.config.data, str(checkpoint.folder / "config.json"), dtype, device)
        feed = Feed(model, checkpoint, dtype, device, towers)
        resident = set(range(len(decoder_layers(model)[1]))) if layers is None else set(layers)
        if not resident:
            feed.stream_ends()
        feed.load(ENDS)
        for index in sorted(resident):
            feed.load(index)
        return cls(model, feed, device, resident)

    @property
    def layers(self) -> int:
        """Layers in the stack."""
        return len(self._layers)

    @property
    def routed(self) -> bool:
        """Whether any layer chooses experts."""
        return any(router_of(self.model, layer) is not None for layer in self._layers)

    @torch.no_grad()
    def logits(self, sequences: Sequence[Sequence[int]]) -> list[Tensor]:
        """Next-token logits after each token of each sequence: float32 [T, W]."""
        if len(self._resident) < self.layers:
            return [self.head(list(self.hidden(ids))[-1]) for ids in sequences]
        return [self.model(input_ids=self._ids(ids), use_cache=False).logits[0].float() for ids in sequences]

    def hidden(self, ids: Sequence[int]) -> Iterator[Tensor]:
        """The stream that enters layer 0, 1, … and, last, the one that leaves the last layer: [T, D] in the model's type."""
        stream_TD, handed = self.embed(ids), None
        yield stream_TD
        for index in range(self.layers):
            run = self.layer(index, stream_TD, ids=ids, handed=handed)
            stream_TD, handed = run.hidden_TD, run.handed
            yield stream_TD

    @torch.no_grad()
    def embed(self, ids: Sequence[int]) -> Tensor:
        """The stream that enters layer 0."""
        with self._only(0, None) as seen:
            decoder(self.model)(input_ids=self._ids(ids), use_cache=False)
        return seen[0][0][0]

    @torch.no_grad()
    def head(self, hidden_TD: Tensor) -> Tensor:
        """Final norm and output matrix: float32 logits [T, W]."""
        with self._only(self.layers - 1, hidden_TD):
            return self.model(**self._dummy(hidden_TD, 0, [0] * len(hidden_TD)), use_cache=False).logits[0].float()

    @torch.no_grad()
    def normed(self, hidden_TD: Tensor) -> Tensor:
        """What the output matrix reads of the stream that leaves the last layer, [T, D] in the model's type."""
        with self._only(self.layers - 1, hidden_TD):
            found = decoder(self.model)(**self._dummy(hidden_TD, 0, [0] * len(hidden_TD)), use_cache=False)
        return found.last_hidden_state[0]

    @torch.no_grad()
    def layer(
        self, index: int, hidden_TD: Tensor, start: int = 0, experts_TK: Tensor | None = None, *, ids: Sequence[int] | None = None,
        handed: Tensor | None = None, reads: Tensor | None = None,
    ) -> LayerRun:  # fmt: skip
        """Run one layer on a sequence whose first token has position `start`, with the class's own rotary tables and masks.

        With `experts_TK` the choice of experts is forced; their weights are still the layer's own. With `reads` that is what sparse
        attention reads. `handed` is what the layer before handed on; `ids` matter where token ids choose experts.
        """
        layer = self._layers[index]
        router = router_of(self.model, layer)
        with self.loaded(index):
            with (
                watched(layer, router, experts_TK) as choices, noted_parts(layer) as parts, noted_reads(layer, reads) as read,
                self._only(index, hidden_TD, handed, run=True) as seen,
            ):  # fmt: skip
                decoder(self.model)(**self._dummy(hidden_TD, start, ids), use_cache=False)
            kept = choices[0][1].copy() if choices else None
        return LayerRun(
            hidden_TD=seen[0][0][0], parts=parts, selection=choices[0][0] if choices else None, router=kept,
            reads=read[0] if read else None, handed=seen[0][1],
        )  # fmt: skip

    @torch.no_grad()
    def look(
        self, ids: Sequence[int], media: dict[str, Tensor], experts: Sequence[Tensor | None] | None = None
    ) -> tuple[Tensor, list[Tensor | None]]:  # fmt: skip
        """Logits [T, W] of a prompt with images, by the class's own pass, a layer's weights at a time; and the experts of each layer.

        With `experts` these are forced.
        """
        chosen: list[Tensor | None] = []
        for index, layer in enumerate(self._layers):
            layer.forward = partial(self._loading, index, layer.forward, chosen, None if experts is None else experts[index])
        try:
            found = self.model(input_ids=self._ids(ids), use_cache=False, **media).logits[0].float()
        finally:
            for layer in self._layers:
                del layer.forward
        return found, chosen

    def _loading(self, index: int, own: Any, chosen: list[Tensor | None], experts_TK: Tensor | None, *args: Any, **kwargs: Any) -> Any:
        """A layer's forward with its weights read for it."""
        layer = self._layers[index]
        with self.loaded(index), watched(layer, router_of(self.model, layer), experts_TK) as choices:
            result = own(*args, **kwargs)
            chosen.append(choices[0][0].experts_TK if choices else None)
        return result

    @torch.no_grad()
    def rotary(self, index: int, positions_T: Tensor) -> tuple[Tensor, Tensor] | None:
        """Cosines and sines of a layer at the positions, [T, R], with the factor that the class puts on them; None without such a table."""
        module = getattr(decoder(self.model), "rotary_emb", None)
        if module is None:
            return None
        probe = torch.zeros(1, len(positions_T), 1, dtype=torch.float32, device=self.device)
        kinds = {"layer_type": self._rope_kind(index)} if "layer_type" in inspect.signature(module.forward).parameters else {}
        found = module(probe, positions_T[None].to(self.device), **kinds)
        if isinstance(found, Tensor) and found.is_complex():
            return found[0].real, found[0].imag
        return (found[0][0], found[1][0]) if isinstance(found, tuple) and len(found) == 2 else None

    def _rope_kind(self, index: int) -> Any:
        """By which name the class keeps the rotation of a layer."""
        named = [found for module in self._layers[index].modules() if (found := getattr(module, "rope_layer_type", None))]
        return named[0] if named else self.model.config.get_text_config().layer_types[index]

    @property
    def dtype(self) -> torch.dtype:
        """Type that the model computes in."""
        return self.model.dtype

    @contextmanager
    def loaded(self, index: int) -> Iterator[None]:
        """Hold the weights of one layer; layers that are not resident are given back afterwards."""
        if index in self._resident:
            yield
            return
        self.feed.load(index)
        self._resident.add(index)
        try:
            yield
        finally:
            self._resident.discard(index)
            self.feed.drop(index)

    def _ids(self, ids: Sequence[int]) -> Tensor:
        return torch.tensor([list(ids)], dtype=torch.int64, device=self.device)

    def _dummy(self, hidden_TD: Tensor, start: int, ids: Sequence[int] | None = None) -> dict[str, Tensor]:
        """Inputs that only give the decoder the length and the positions, and token ids where they matter."""
        tokens = hidden_TD.shape[0]
        positions = torch.arange(start, start + tokens, device=self.device)
        return {"input_ids": self._ids([0] * tokens if ids is None else ids), "position_ids": positions[None]}

    @contextmanager
    def _only(
        self, index: int, hidden_TD: Tensor | None, handed: Tensor | None = None, run: bool = False
    ) -> Iterator[list[tuple[Tensor, Tensor | None]]]:
        """Let every layer pass its input on, but `index`: it takes `hidden_TD` (when given), runs (when asked), and is written down."""
        seen: list[tuple[Tensor, Tensor | None]] = []
        own, hands_on = self._layers[index].forward, self._hands_on

        def chosen(stream: Tensor, *args: Any, **kwargs: Any) -> Any:
            stream = stream if hidden_TD is None else hidden_TD[None].to(self.device, self.dtype)
            if not run:
                seen.append((stream, None))
                return (stream, None) if hands_on else stream
            result = own(stream, *args, **(kwargs | {HANDED: handed} if hands_on else kwargs))
            several = result if isinstance(result, tuple) else (result,)
            seen.append((several[0], several[1] if hands_on else None))
            return result

        def passed(stream: Tensor, *_args: Any, **_kwargs: Any) -> Any:
            return (stream, None) if hands_on else stream

        for i, layer in enumerate(self._layers):
            layer.forward = chosen if i == index else passed
        try:
            yield seen
        finally:
            for layer in self._layers:
                del layer.forward
