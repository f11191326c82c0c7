"""Images become embeddings before the step that reads their tokens; those of the last images are kept."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from day0.engine import footprint, transient
from day0.engine.bind import Bound
from day0.engine.layer import BoundLayer
from day0.engine.release import Release
from day0.engine.weights import load
from day0.parts.vision_attention import VisionAttention
from day0.spec.axial import AxialRope
from day0.spec.errors import Day0Error
from day0.spec.lazy import torch_dtype
from day0.spec.model import PartSpec
from day0.spec.picture import Picture, Placed, View, places
from day0.spec.registry import blocks
from day0.spec.reports.plan_memory import WorkloadRow
from day0.spec.step import Images, Segment, Step, Turn

Chunk = tuple[int, int, Sequence[Placed]]  # position of its first token, tokens, images of its sequence


@dataclass(frozen=True)
class Encoded:
    """One image in the language model's terms."""

    embeddings_ND: Tensor
    taps: tuple[Tensor, ...]  # [N, D] each

    @property
    def bytes(self) -> int:
        return sum(tensor.nbytes for tensor in (self.embeddings_ND, *self.taps))


class Vision:
    """A tower bound to weights and operators, and what it made of the last images."""

    def __init__(self, release: Release, plan: WorkloadRow, bound: Bound, device: torch.device) -> None:
        release.require_vision()
        encoder = release.model.encoder
        assert encoder is not None
        layout = footprint.buffer(release.vision, plan.dtype)
        buffer = torch.empty(layout.bytes, dtype=torch.uint8, device=device)
        self.encoder, self.patches, self.bytes = encoder, plan.image_patches, layout.bytes
        self.capacity = plan.batch * transient.embeddings(encoder, plan.dtype, plan.image_patches)  # bytes of embeddings that are kept
        self.largest = 0  # patches of the largest view so far
        self.encoded = 0  # images that were not there already
        self._w, self._bound = load(release, release.vision, layout, buffer, plan.dtype), bound
        self._dtype, self._device = torch_dtype(plan.dtype), device
        self._layers = [BoundLayer(layer, bound, None, "vision.") for layer in encoder.layers]
        self._kept: OrderedDict[str, Encoded] = OrderedDict()

    def require(self, images: Sequence[Placed]) -> None:
        """Day0Error for an image that is larger than planned."""
        for placed in images:
            if placed.picture.patches > self.patches:
                tokens = -(-placed.picture.patches // self.encoder.merge**2)
                problem = f"an image has {placed.picture.patches} patches; the plan takes up to {self.patches}"
                raise Day0Error(problem, hint=f"scale it down, or run `day0 plan-memory --with-vision --image-tokens {tokens}`")

    def images(self, start: int, chunks: Sequence[Chunk]) -> Images | None:
        """What stands at the image tokens of the chunks of a step, the first of which begins at row `start` of its flattened tokens."""
        rows: list[int] = []
        pieces: list[tuple[Tensor, ...]] = []
        for first, count, images in chunks:
            for placed in images:
                if placed.start < first + count and placed.stop > first:
                    spots = [placed.start + i for i, token in enumerate(placed.picture.tokens) if token == placed.picture.token]
                    kept = [n for n, place in enumerate(spots) if first <= place < first + count]
                    if kept:
                        rows += [start + spots[n] - first for n in kept]
                        found = self.encode(placed.picture)
                        pieces.append(tuple(x[kept[0] : kept[-1] + 1] for x in (found.embeddings_ND, *found.taps)))
            start += count
        if not rows:
            return None
        embeddings_ND, *taps = (torch.cat(same) for same in zip(*pieces, strict=True))
        return Images(torch.tensor(rows, device=self._device), embeddings_ND, tuple(taps))

    @torch.inference_mode()
    def encode(self, picture: Picture) -> Encoded:
        """From what was kept, or computed."""
        kept = self._kept.get(picture.digest)
        if kept is not None:
            self._kept.move_to_end(picture.digest)
            return kept
        self.encoded += 1
        views = [self._view(view) for view in picture.views]
        joined = [same[0] if len(same) == 1 else torch.cat(same) for same in zip(*views, strict=True)]
        found = Encoded(joined[0], tuple(joined[1:]))
        expected = picture.tokens.count(picture.token)
        assert found.embeddings_ND.shape[0] == expected, f"{found.embeddings_ND.shape[0]} embeddings for {expected} tokens"
        while self._kept and found.bytes + sum(one.bytes for one in self._kept.values()) > self.capacity:
            self._kept.popitem(last=False)
        if found.bytes <= self.capacity:
            self._kept[picture.digest] = found
        return found

    def _view(self, view: View) -> tuple[Tensor, ...]:
        """Embeddings of one view, then what its taps make."""
        rows, columns = view.grid
        self.largest = max(self.largest, rows * columns)
        encoder, pixels_TI = self.encoder, torch.as_tensor(view.patches).to(self._device, self._dtype)
        x_TD = self._part("patches", encoder.patches, pixels_TI, view)
        step = Step(decode=None, prefill=self._segment(view), outputs=torch.empty(0, dtype=torch.int64))
        taps = {after: number for number, (after, _) in enumerate(encoder.taps)}
        found: list[Tensor] = []
        stream: Any = self._layers[0].open(x_TD)
        for layer, bound in zip(encoder.layers, self._layers, strict=True):
            stream = bound(stream, getattr(self._w.layers, str(layer.index)), step)
            if layer.index in taps:
                number = taps[layer.index]
                found.append(self._part(f"taps.{number}", encoder.taps[number][1], stream, view))
        closed = self._layers[-1].close(stream, None, None)
        return (self._part("connector", encoder.connector, closed, view), *found)

    def _part(self, place: str, part: PartSpec, x: Tensor, view: View) -> Tensor:
        w: Any = self._w
        for name in place.split("."):
            w = getattr(w, name)
        y: Tensor = blocks().get(part.kind).run(x, part, w, view.grid, self._bound.at(None, f"vision.{place}", "prefill"))
        return y

    def _segment(self, view: View) -> Segment:
        """The patches of a view, as layers take tokens."""
        rows, columns = view.grid
        count, none = rows * columns, torch.empty(0, dtype=torch.int64)
        ropes: set[AxialRope] = {layer.mixer.rope for layer in self.encoder.layers if isinstance(layer.mixer, VisionAttention)}
        return Segment(
            phase="prefill", tokens_T=none, positions_T=none, queries=(count,), lengths=(count,), entries_N={}, table_BP=none[None],
            runs=(None,), slots=(0,), rotary={rope: self._turn(rope, rows, columns) for rope in ropes},
        )  # fmt: skip

    def _turn(self, rope: AxialRope, rows: int, columns: int) -> Turn:
        """Angles of each patch, in the order of the tower."""
        down_T, across_T = places((rows, columns), self.encoder.squares)
        frequencies = torch.tensor(rope.frequencies())
        down, across = (x[:, None].float() * frequencies for x in (down_T, across_T))
        if rope.order == "column and row in turn":
            angles = torch.stack((across, down), dim=-1).flatten(1)
        else:
            angles = torch.cat((down, across) if rope.order == "rows, columns" else (across, down), dim=-1)
        return Turn(angles.cos().to(self._device), angles.sin().to(self._device))


def axes(tokens: int, images: Sequence[Placed], merge: int) -> Tensor:
    """[3, tokens]: time, row and column of each token of a prompt. Text goes on from the largest before it; an image's rows and columns
    count from there, and it takes as many positions as its longer side (arXiv 2409.12191, §2.1)."""
    pieces, place, after = [], 0, 0
    for placed in images:
        text = placed.start - place
        pieces.append(torch.arange(after, after + text).expand(3, -1))
        rows, columns = (count // merge for count in placed.picture.views[0].grid)
        grid = torch.meshgrid(torch.zeros(1, dtype=torch.int64), torch.arange(rows), torch.arange(columns), indexing="ij")
        pieces.append(torch.stack([axis.flatten() for axis in grid]) + after + text)
        place, after = placed.stop, after + text + max(rows, columns)
    pieces.append(torch.arange(after, after + tokens - place).expand(3, -1))
    return torch.cat(pieces, dim=1)
