"""Checkpoint names → canonical names, by a table of patterns. The way back is in the result: a piece knows the name it comes from."""

import re
from collections.abc import Callable, Iterator, Mapping

from day0.spec.record import record


@record
class Cut:
    """How one canonical tensor lies inside one checkpoint tensor that holds several, or holds it turned."""

    target: str  #: canonical name, relative to the layer
    axis: int = 0  #: checkpoint axis that is shared
    part: int = 0  #: which of `of` parts
    of: int = 1  #: parts on that axis
    interleaved: bool = False  #: parts alternate element by element instead of lying side by side
    transpose: bool = False  #: the last two axes are exchanged
    padded: bool = False  #: more elements are stored than count: the first ones do


@record
class Piece:
    """Where (a part of) a canonical tensor comes from."""

    source: str  #: checkpoint name of the weight
    expert: int | None = None  #: place on the stacked axis E; None when not stacked
    cut: Cut | None = None  #: None when the whole tensor is taken


Target = str | tuple[str | Cut, ...]


@record
class Names:
    """Patterns of one family; `{i}` is a layer, `{e}` an expert. Names carry no ".weight" where the release has it: both match."""

    layer: str  #: prefix of a layer, "model.layers.{i}."
    tensors: Mapping[str, Target]  #: checkpoint name in a layer → canonical name in a layer ("mixer.q"); of several, those the layer has
    ends: Mapping[str, str]  #: checkpoint name outside the layers → "embed", "norm", "head"
    prefixes: tuple[str, ...] = ("",)  #: what may stand before every name, such as "language_model."
    per_layer: int = 1  #: layers of the stack that one layer of the checkpoint holds; above 1, canonical names begin with "0.", "1.", …
    ignored: tuple[str, ...] = ()  #: regular expressions of tensors that carry no weight of the model (recomputable buffers)

    @property
    def numbers(self) -> frozenset[int]:
        """Numbers that the patterns speak of: of any other, what is claimed does not depend on its value."""
        return numbers(self.layer, *self.tensors, *self.ends, *self.prefixes, *self.ignored)

    def matcher(self) -> Callable[[str], list[tuple[str, Piece]] | None]:
        """Checkpoint name → (canonical name, piece) for each weight in it; [] for an ignored one; None when nothing claims it."""
        return _Matcher(self).pieces

    def resolve(self, stored: Iterator[str]) -> tuple[dict[str, list[Piece]], list[str]]:
        """Map checkpoint names → (canonical name → its pieces in order, checkpoint names that no pattern claims)."""
        matcher = _Matcher(self)
        found: dict[str, list[Piece]] = {}
        unclaimed = []
        for name in stored:
            pieces = matcher.pieces(name)
            if pieces is None:
                unclaimed.append(name)
            for target, piece in pieces or ():
                found.setdefault(target, []).append(piece)
        for pieces_of in found.values():
            pieces_of.sort(key=lambda p: (p.expert or 0, p.cut.part if p.cut else 0))
        return found, unclaimed


def numbers(*patterns: str) -> frozenset[int]:
    """All that are written out in some patterns and may be those of experts: digits that are glued to letters (`w1`) are not."""
    return frozenset(int(digits) for pattern in patterns for digits in _WRITTEN.findall(_ESCAPED.sub(" ", pattern)))


_ESCAPED, _WRITTEN = re.compile(r"\\."), re.compile(r"(?<![A-Za-z0-9])\d+(?![A-Za-z0-9])")
_DIGITS = "[0-9]{1,18}"  # more are no number of a layer or an expert, and Python refuses to read some thousands of them
_NUMBER = re.compile(rf"(?<=[._]){_DIGITS}(?=\.|$)")  # of an expert or a shard, "experts.3.w1", "shard_3"


def _pattern(text: str) -> str:
    return re.escape(text).replace(r"\{i\}", rf"(?P<i>{_DIGITS})").replace(r"\{e\}", rf"(?P<e>{_DIGITS})")


class _Matcher:
    """The table compiled: one dictionary look-up for each name after its numbers are taken out."""

    def __init__(self, names: Names) -> None:
        prefix = "|".join(re.escape(p) for p in sorted(names.prefixes, key=len, reverse=True))
        self._prefix = re.compile(f"(?:{prefix})")
        self._layer = re.compile(_pattern(names.layer))
        self._ignored = [re.compile(p) for p in names.ignored]
        self._ends, self._per_layer = names.ends, names.per_layer
        self._plain = {k: v for k, v in names.tensors.items() if "{e}" not in k}
        self._experts = {k.replace("{e}", "{}"): v for k, v in names.tensors.items() if "{e}" in k}

    def pieces(self, name: str) -> list[tuple[str, Piece]] | None:
        """(canonical name, piece) for each canonical tensor in `name`; [] for an ignored one; None when nothing matches."""
        if any(p.search(name) for p in self._ignored):
            return []
        for start in self._starts(name):
            rest = name[start:]
            end = self._ends.get(rest) or self._ends.get(rest.removesuffix(".weight"))
            if end is not None:
                return [(end, Piece(source=name))]
            layer = self._layer.match(rest)
            if layer:
                found = self._in_layer(name, rest[layer.end() :], int(layer["i"]))
                if found is not None:
                    return found
        return None

    def _starts(self, name: str) -> Iterator[int]:
        match = self._prefix.match(name)
        yield match.end() if match else 0

    def _in_layer(self, name: str, rest: str, index: int) -> list[tuple[str, Piece]] | None:
        for key in (rest, rest.removesuffix(".weight")):
            target = self._plain.get(key)
            expert = None
            if target is None and self._experts:
                numbers = _NUMBER.findall(key)
                if len(numbers) == 1:
                    target = self._experts.get(_NUMBER.sub("{}", key))
                    expert = int(numbers[0])
            if target is not None:
                return [(self._canonical(index, t), Piece(source=name, expert=expert, cut=c)) for t, c in _targets(target)]
        return None

    def _canonical(self, index: int, target: str) -> str:
        if self._per_layer == 1:
            return f"layers.{index}.{target}"
        place, _, rest = target.partition(".")
        return f"layers.{index * self._per_layer + int(place)}.{rest}"


def _targets(target: Target) -> list[tuple[str, Cut | None]]:
    members = (target,) if isinstance(target, str) else target
    return [(member, None) if isinstance(member, str) else (member.target, member) for member in members]
