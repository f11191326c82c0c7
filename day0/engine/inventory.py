"""The weights of a release by kinds of layers: layers that hold the same shapes are counted, not repeated. Needs no torch."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from math import prod

from day0.engine.footprint import at_rest, buffer, layer_state
from day0.engine.known import towers_of
from day0.engine.release import Located, Release
from day0.engine.share import Share
from day0.spec import dtype as number
from day0.spec.format import Stored
from day0.spec.model import Layer, TensorSpec
from day0.spec.names import Piece
from day0.spec.placement import Placement
from day0.spec.registry import parts
from day0.spec.state import StateSpec

BEFORE = re.compile(r"^(?:.*?\.)?layers\.\d+\.")  # of a layer's tensors in a checkpoint
Weights = Mapping[str, Located]


class Inventory:
    """What there is to lay out."""

    def __init__(self, release: Release, dtype: str) -> None:
        self.release, self.dtype = release, dtype
        self.kinds: list[Weights] = []  # one layer of each kind
        self.kind_of: list[int] = []  # layer → its kind
        self.ends: Weights = release.ends()
        self._state: dict[tuple[int, bool], tuple[Layer, tuple[StateSpec, ...]]] = {}
        self._same: dict[tuple[bool, tuple[StateSpec, ...]], tuple[StateSpec, ...]] = {}
        stored = release.checkpoint.stored
        self.towers = {name: sum(stored[each].bytes for each in names) for name, names in release.towers.items()}
        if release.checkpoint.config_alone:
            self.towers |= {name: number.size(dtype, count) for name, _, count in towers_of(release.checkpoint.config.data)}
        self._shares: dict[Placement, Share] = {}
        seen: dict[object, int] = {}
        for layer in release.model.layers:
            weights = release.layer(layer.index)
            signature = tuple((name, located.spec, *at_rest(located, dtype)) for name, located in weights.items())
            if signature not in seen:
                seen[signature] = len(self.kinds)
                self.kinds.append(weights)
            self.kind_of.append(seen[signature])

    def tower_bytes(self, *, run: bool) -> int:
        """Bytes of the towers as they are stored; of the one that day0 runs, as it rests in memory."""
        return buffer(self.release.vision, self.dtype).bytes if run else sum(self.towers.values())

    def share(self, place: Placement) -> Share:
        """What a rank computes."""
        if place not in self._shares:
            self._shares[place] = self._share(place)
        return self._shares[place]

    def _share(self, place: Placement) -> Share:
        forms = [{name: located.format for name, located in weights.items()} for weights in self.kinds]
        ends = {name: located.format for name, located in self.ends.items()}
        return Share.of(self.release.model, [forms[kind] for kind in self.kind_of], ends, place)

    @cached_property
    def bank_format(self) -> str:
        """Format of the routed experts; "" where there are none."""
        for weights in self.kinds:
            for located in weights.values():
                if located.spec.role == "expert":
                    return located.pieces[0][1].format
        return ""

    @cached_property
    def experts(self) -> int:
        """Routed experts of a layer; 0 where there are none."""
        return max((each.spec.shape[0] for weights in self.kinds for each in weights.values() if each.spec.role == "expert"), default=0)

    @cached_property
    def tower_widths(self) -> tuple[int, int]:
        """Widths of the towers' stream and of their widest matrix; 0 where there are no towers."""
        shapes = [self.release.checkpoint.stored[name].shape for names in self.release.towers.values() for name in names]
        matrices = [shape for shape in shapes if len(shape) == 2]
        inputs = Counter(shape[1] for shape in matrices)
        return (inputs.most_common(1)[0][0] if inputs else 0), max((shape[0] for shape in matrices), default=0)

    @cached_property
    def layers(self) -> list[tuple[Layer, Weights]]:
        """One layer of each kind, and its weights."""
        stack = self.release.model.layers
        return [(stack[self.kind_of.index(kind)], weights) for kind, weights in enumerate(self.kinds)]

    def state(self, index: int, keys: bool) -> tuple[Layer, tuple[StateSpec, ...]]:
        """What a layer keeps (one object for layers that keep the same); with `keys`, index keys also where it reuses another's choice."""
        if (index, keys) not in self._state:
            model = self.release.model
            layer = model.layers[index]
            kept = list(layer_state(layer, self.dtype))
            if keys and layer.index_source is not None:
                kept += [spec for spec in layer_state(model.layers[layer.index_source], self.dtype) if spec.use == "index"]
            same = (layer.index_source is not None, tuple(kept))
            self._state[index, keys] = (layer, self._same.setdefault(same, same[1]))
        return self._state[index, keys]

    @cached_property
    def banks(self) -> list[dict[str, int]]:
        """Kind of layer → bytes of the two tensors that engines keep its routed experts in: what reads the input, and what gives the output."""
        found = []
        for weights in self.kinds:
            sizes = {"in": 0, "out": 0}
            for located in weights.values():
                if located.spec.role == "expert":
                    parts_of = at_rest(located, self.dtype)
                    sizes["out" if located.spec.axes.endswith("F") else "in"] += sum(number.size(kind, prod(shape)) for _, kind, shape in parts_of)
            found.append(sizes)
        return found

    @cached_property
    def absorbed(self) -> list[frozenset[str]]:
        """Kind of layer → weights that decoding reads in another order than prefill."""
        found = []
        for layer, _ in self.layers:
            sites = (
                (place, site)
                for place, part in layer.parts()
                for site in parts().get(part.kind).sites(part, self.release.model.hidden, "decode")
            )
            found.append(frozenset(f"{place}.{name}" for place, site in sites if site.op == "absorb_query" for name in site.weights))
        return found

    @cached_property
    def prediction(self) -> Weights:
        """Weights of extra prediction layers, cut like those that have their name in the last layer of the stack; others are whole.

        Where there are no weights to read, each is the last layer once more.
        """
        last = self.release.layer(len(self.release.model.layers) - 1)
        if self.release.checkpoint.config_alone:
            count = self.release.model.prediction.count if self.release.model.prediction else 0
            return {f"prediction.{index}.{name}": located for index in range(count) for name, located in last.items()}
        like = {BEFORE.sub("", stored.name): (name, piece) for name, located in last.items() for piece, stored in located.pieces}
        found: dict[str, list[tuple[Piece, str]]] = {}
        for source in self.release.prediction:
            prefix = BEFORE.match(source)
            target, piece = like.get(BEFORE.sub("", source), ("", Piece(source=source)))
            found.setdefault(f"{prefix[0] if prefix else ''}{target}" if target else source, []).append((piece, source))
        located: dict[str, Located] = {}
        for place, pieces in found.items():
            stored = [(piece, self.release.checkpoint.stored[source]) for piece, source in pieces]
            twin = last.get(BEFORE.sub("", place))
            if twin is not None and len(stored) == len(twin.pieces):
                located[place] = Located(name=place, spec=twin.spec, pieces=tuple(stored))
            else:
                located |= {one.name: _whole(piece, one, self.ends.get("embed")) for piece, one in stored}
        return located


def _whole(piece: Piece, stored: Stored, table: Located | None) -> Located:
    """A weight that no declaration speaks of: cut like the table of the vocabulary where it has its shape, else whole on every card."""
    spec = TensorSpec(name=stored.name, axes="", shape=stored.shape, role="linear")
    if table is not None and stored.shape == table.spec.shape:
        spec = replace(table.spec, name=stored.name)
    return Located(name=stored.name, spec=spec, pieces=((replace(piece, expert=None, cut=None), stored),))
