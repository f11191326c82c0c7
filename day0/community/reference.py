"""The released model as transformers runs it, whole or one layer at a time: what `validate` compares with."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor, nn

from day0.checkpoint.folder import Checkpoint
from day0.community.feed import ENDS, Feed
from day0.community.positions import REUSED, Read
from day0.community.selection import Selection, router_of, watched
from day0.community.skeleton import decoder_layers, skeleton


@dataclass(frozen=True, kw_only=True)
class LayerRun:
    """What one layer did with the tokens of one sequence."""

    hidden_TD: Tensor  #: stream that leaves the layer
    parts: dict[str, Tensor] = field(default_factory=dict)  #: "mixer" and "ffn" → what each added to the stream, [T, D]
    indices_TK: Tensor | None = None  #: positions that each token reads, -1 for none; None where all are read
    selection: Selection | None = None  #: experts that were chosen; None in a dense layer
    router: nn.Module | None = None  #: a copy of the module that chose them, for `selection.rule`; None in a dense layer


class Reference:
    """A model class of transformers with weights from our loader. One sequence at a time, no padding, no cache."""

    def __init__(self, model: Any, feed: Feed, device: torch.device, resident: set[int]) -> None:
        self.model, self.feed, self.device, self._resident = model, feed, device, resident
        self._layers = decoder_layers(model)[1]
        self._read = Read()

    @classmethod
    def open(cls, checkpoint: Checkpoint, dtype: torch.dtype, layers: range | None = None, device: torch.device | str = "cpu") -> Self:
        """Build the class and make `layers` resident (all when None, none for `range(0)`); the others are read when they run.

        With no resident layer, of the embedding table and the head no more than the rows in use are held either.
        """
        device = torch.device(device)
        model = skeleton(checkpoint.config.data, str(checkpoint.folder / "config.json"), dtype, device)
        feed = Feed(model, checkpoint, dtype, device)
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
        stream_TD = self.embed(ids)
        yield stream_TD
        for index in range(self.layers):
            stream_TD = self.layer(index, stream_TD).hidden_TD
            yield stream_TD

    @torch.no_grad()
    def embed(self, ids: Sequence[int]) -> Tensor:
        """The stream that enters layer 0."""
        with self._only(0, None) as seen:
            self.model.get_decoder()(input_ids=self._ids(ids), use_cache=False)
        return seen[0]

    @torch.no_grad()
    def head(self, hidden_TD: Tensor) -> Tensor:
        """Final norm and output matrix: float32 logits [T, W]."""
        with self._only(self.layers - 1, hidden_TD):
            return self.model(**self._dummy(hidden_TD, 0), use_cache=False).logits[0].float()

    @torch.no_grad()
    def layer(
        self, index: int, hidden_TD: Tensor, start: int = 0, experts_TK: Tensor | None = None, indices_TK: Tensor | None = None
    ) -> LayerRun:
        """Run one layer on a sequence whose first token has position `start`, with the class's own rotary tables and masks.

        With `experts_TK` the choice of experts is forced; their weights are still the layer's own. With `indices_TK` so are the positions
        that each token reads; without it a layer that reuses another's choice takes that of the layer that ran last.
        """
        layer = self._layers[index]
        router = router_of(self.model, layer)
        with self.loaded(index):
            with (
                watched(router, experts_TK) as choices, _parts(layer) as parts, self._read.watched(layer, indices_TK),
                self._only(index, hidden_TD, run=True) as seen,
            ):  # fmt: skip
                self.model.get_decoder()(**self._dummy(hidden_TD, start), use_cache=False)
            router = deepcopy(router) if choices else None
        read_TK = self._read.positions(layer, len(hidden_TD))
        return LayerRun(hidden_TD=seen[0], parts=parts, indices_TK=read_TK, selection=choices[0] if choices else None, router=router)

    @torch.no_grad()
    def rotary(self, positions_T: Tensor) -> tuple[Tensor, Tensor] | None:
        """Cosines and sines at the positions, [T, R], with the factor that the class puts on them; None when it has no single table."""
        module = getattr(self.model.get_decoder(), "rotary_emb", None)
        if module is None:
            return None
        probe = torch.zeros(1, len(positions_T), 1, dtype=torch.float32, device=self.device)
        found = module(probe, positions_T[None].to(self.device))
        return (found[0][0], found[1][0]) if isinstance(found, tuple) and len(found) == 2 else None

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

    def _dummy(self, hidden_TD: Tensor, start: int) -> dict[str, Tensor]:
        """Inputs that only give the decoder the length and the positions."""
        tokens = hidden_TD.shape[0]
        width = self.model.config.get_text_config().hidden_size
        positions = torch.arange(start, start + tokens, device=self.device)
        return {"inputs_embeds": torch.zeros(1, tokens, width, dtype=self.dtype, device=self.device), "position_ids": positions[None]}

    @contextmanager
    def _only(self, index: int, hidden_TD: Tensor | None, run: bool = False) -> Iterator[list[Tensor]]:
        """Let every layer pass its input on, but `index`: it takes `hidden_TD` (when given), runs (when asked), and is written down."""
        seen: list[Tensor] = []
        own = self._layers[index].forward

        def chosen(stream: Tensor, *args: Any, **kwargs: Any) -> Any:
            stream = stream if hidden_TD is None else hidden_TD[None].to(self.device, self.dtype)
            result = own(stream, *args, **self._read.given(kwargs, stream.shape[1])) if run else _pass(stream, **kwargs)
            seen.append((result[0] if isinstance(result, tuple) else result)[0])
            return result

        for i, layer in enumerate(self._layers):
            layer.forward = chosen if i == index else _pass
        try:
            yield seen
        finally:
            for layer in self._layers:
                del layer.forward


def _pass(stream: Tensor, *_args: Any, **kwargs: Any) -> Any:
    return (stream, kwargs[REUSED]) if REUSED in kwargs else stream


@contextmanager
def _parts(layer: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Write down what the mixer and the feed-forward network of a layer return."""
    seen: dict[str, Tensor] = {}

    def note(place: str) -> Any:
        def hook(_module: nn.Module, _inputs: Any, output: Any) -> None:
            value = output[0] if isinstance(output, tuple) else output
            seen[place] = value.reshape(-1, value.shape[-1]).detach()

        return hook

    handles = [module.register_forward_hook(note(_place(name))) for name, module in layer.named_children() if _place(name)]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def _place(name: str) -> str:
    """The part that a child of a decoder layer is, by the names that transformers gives them; "" for norms and the like."""
    if "norm" in name:
        return ""
    if "attn" in name or "attention" in name or "mixer" in name:
        return "mixer"
    return "ffn" if any(word in name for word in ("mlp", "moe", "ffn", "feed_forward")) else ""
