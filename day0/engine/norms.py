"""Weights of norms, a few of each kind: their means say whether a release stores a gain, or its difference from one. Needs no torch."""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Literal

from day0.checkpoint.bytes import read
from day0.engine.release import Located, Release
from day0.spec.errors import Day0Error
from day0.spec.format import TensorHeader
from day0.spec.lazy import numpy as np
from day0.spec.model import PartSpec
from day0.spec.ops import Site
from day0.spec.record import record
from day0.spec.registry import parts

Stored = Literal["about 0", "about 1", "neither"]
Formula = Literal["w", "1 + w"]

MOST = 64 << 10  # bytes read of one tensor
NEAR = 0.4  # of 0 or 1: trained differences from one have means of up to 0.25 (Qwen3.5, Qwen4-exp)
SIGNED = 0.05  # share of values below zero that a gain does not have
LAYER = re.compile(r"layers\.(\d+)\.(.+)")
WIDE = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}  # type → how numpy reads it; the upper half of a float32 as a whole number
NORMS = frozenset({"rms_norm", "gated_rms_norm", "layer_norm"})  # operators that multiply by the weight, or by one and the weight
PLUS_ONE = frozenset({"hyper_mix", "ngram_gate"})  # operators that hold norms, all of which multiply by one and the weight


@record
class NormKind:
    """The norms of one place in the layers."""

    name: str  #: canonical, without the layer: "residual.mixer_norm"; "norm" is the last one
    formula: Formula | None  #: what the family multiplies by; None where its operator makes something else of the weight
    tensors: tuple[str, ...]  #: checkpoint names of those that were read
    means: tuple[float, ...]  #: of each
    stored: Stored  #: what all of them are

    @property
    def odd(self) -> bool:
        """Whether what is stored fits the other formula."""
        return (self.formula, self.stored) in (("w", "about 0"), ("1 + w", "about 1"))


def norms(release: Release) -> list[NormKind]:
    """Of each kind the first, the middle and the last layer's; without those that are packed, cannot be read, or hold nothing but zeros."""
    kinds: dict[tuple[str, Formula | None], list[Located]] = {}
    formulas = _formulas(release)
    for name, located in release.tensors.items():
        if located.spec.role == "norm" and _plain(located):
            match = LAYER.fullmatch(name)
            index, own = (int(match[1]), match[2]) if match else (None, name)
            kinds.setdefault((own, formulas(index).get(own)), []).append(located)
    found = (_kind(release.folder, *kind, some) for kind, some in kinds.items())
    return [kind for kind in found if kind is not None]


def _plain(located: Located) -> bool:
    piece, stored = located.pieces[0]
    return located.format == "plain" and located.fits and not located.stacked and piece.cut is None and stored.parts["data"].dtype in WIDE


def _formulas(release: Release) -> Callable[[int | None], dict[str, Formula]]:
    """Layer (None: outside) → name of a weight within it → what its norm multiplies by."""
    model = release.model

    @cache
    def of_part(place: str, part: PartSpec) -> dict[str, Formula]:
        return {f"{place}.{name}": formula for name, formula in _told(parts().get(part.kind).sites(part, model.hidden, "prefill"))}

    @cache
    def of_layer(index: int | None) -> dict[str, Formula]:
        if index is not None:
            return dict(chain.from_iterable(of_part(place, part).items() for place, part in model.layers[index].parts()))
        collapse = of_part("collapse", model.collapse) if model.collapse is not None else {}
        return {**collapse, **dict(_told(model.end_sites("prefill")))}

    return of_layer


def _told(sites: Iterable[Site]) -> Iterator[tuple[str, Formula]]:
    for site in sites:
        if site.op in NORMS | PLUS_ONE:
            formula: Formula = "1 + w" if site.op in PLUS_ONE or site.options.get("plus_one") else "w"
            yield from ((name, formula) for name in site.weights)


def _kind(folder: Path, name: str, formula: Formula | None, some: list[Located]) -> NormKind | None:
    chosen = [some[place] for place in sorted({0, len(some) // 2, len(some) - 1})]
    found = {stored.name: _values(folder, stored.parts["data"]) for _, stored in (located.pieces[0] for located in chosen)}
    held = {tensor: values for tensor, values in found.items() if values}
    looks = {_looks(values) for values in held.values()}
    if not held:
        return None
    return NormKind(
        name=name, formula=formula, tensors=tuple(held), means=tuple(map(fmean, held.values())),
        stored=looks.pop() if len(looks) == 1 else "neither",
    )  # fmt: skip


def _values(folder: Path, header: TensorHeader) -> list[float]:
    """The first ones; none where they are all zero, not finite, or cannot be read: that is told of the file, or by samples."""
    buffer = bytearray(min(header.bytes, MOST))
    try:
        read(folder, header, memoryview(buffer))
    except Day0Error:
        return []
    raw = np.frombuffer(buffer, WIDE[header.dtype])
    values = (raw.astype("<u4") << 16).view("<f4") if header.dtype == "BF16" else raw
    return values.astype("f8").tolist() if values.any() and np.isfinite(values).all() else []


def _looks(values: list[float]) -> Stored:
    """A gain may be small, but hardly has two signs; a difference from one does."""
    mean, below = fmean(values), sum(value < 0 for value in values) / len(values)
    if abs(mean) <= NEAR and below >= SIGNED:
        return "about 0"
    return "about 1" if abs(mean - 1) <= NEAR and not below else "neither"
