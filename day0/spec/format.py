"""How numbers are stored: what a file in `formats/` exports, and what a checkpoint says about a tensor."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from day0.spec.record import record

IDLE = frozenset({
    "input_scale", "input_global_scale", "input_zero_point", "qscale_act", "output_scale", "k_scale", "v_scale", "q_scale", "prob_scale",
})  # companions of a weight that speak of activations or of the cache: they belong to it, and weights alone are decoded without them


class TensorHeader(NamedTuple):
    """One entry of a safetensors header; a tuple, because a release may have half a million."""

    name: str  #: as stored
    dtype: str  #: safetensors name
    shape: tuple[int, ...]  #: as stored
    file: str  #: file name, relative to the folder
    start: int  #: first byte, from the start of the file
    end: int  #: one after the last byte

    @property
    def bytes(self) -> int:
        """Bytes on disk."""
        return self.end - self.start


class Sample(dict[str, TensorHeader]):
    """Headers of which some stand for several that are alike: experts of one bank."""

    def __init__(self, headers: Mapping[str, TensorHeader], times: Mapping[str, int]) -> None:
        super().__init__(headers)
        self.times = times  # tensor → how many it stands for


class Stored(NamedTuple):
    """One weight as it lies on disk: its own tensor and its companions (scales), in one format."""

    name: str  #: checkpoint name of the weight, "….q_proj.weight"
    format: str  #: file name in `formats/`
    shape: tuple[int, ...]  #: of the decoded weight
    parts: Mapping[str, TensorHeader]  #: "data" and the companions the format needs: "scale"
    block: tuple[int, ...] = ()  #: elements that share one scale, along the last axes
    slack: int = 0  #: elements by which the last axis may be shorter than `shape` says; more than 0 where headers alone cannot tell

    @property
    def kept(self) -> dict[str, TensorHeader]:
        """The parts that the weight is decoded from."""
        return {part: header for part, header in self.parts.items() if part not in IDLE}

    @property
    def bytes(self) -> int:
        """Bytes on disk, companions included."""
        return sum(part.bytes for part in self.parts.values())


class Want(NamedTuple):
    """A companion that a format needs beside a tensor."""

    names: tuple[str, ...]  #: one of these
    dtypes: frozenset[str]  #: one of these types
    shapes: tuple[tuple[int, ...], ...]  #: one of these

    def find(self, headers: Mapping[str, TensorHeader]) -> TensorHeader | None:
        """The first of its names that is there as it should be."""
        found = (headers[name] for name in self.names if name in headers)
        return next((header for header in found if header.dtype in self.dtypes and header.shape in self.shapes), None)


class Reading(NamedTuple):
    """How a format would read a tensor, were its companions there."""

    name: str  #: of the weight
    shape: tuple[int, ...]  #: of the decoded weight
    wants: Mapping[str, Want]  #: part → the companion
    block: tuple[int, ...] = ()  #: elements that share one scale, along the last axes
    slack: int = 0  #: as `Stored.slack`


Read = Callable[[TensorHeader, Mapping[str, TensorHeader], Mapping[str, Any]], Reading | None]
Steps = Mapping[str, tuple[int, int]]


@record
class Format:
    """One way to store a weight; knows no operator."""

    name: str  #: the file's name
    order: int  #: recognisers run from small to large; "plain" takes what is left
    recognise: Callable[[Mapping[str, TensorHeader], Mapping[str, Any]], Iterator[Stored]]
    #: (headers not yet taken, quantisation config) → weights in this format
    decode: Callable[..., Any]  #: (parts: name → torch tensor, `Stored.block`, out: tensor) → None; writes the weight in the type of `out`
    packed: bool  #: stays packed at rest and is decoded into the workspace when used
    reading: Read | None = None  #: (a tensor, all headers, quantisation config) → how it would be read; None when it cannot be the format's
    steps: Callable[[Stored, int], Steps | None] | None = None
    #: (weight, one of its axes) → part → (axis of the part that runs along it, elements of the weight in one step of that axis); parts that
    #: are left out serve every element; None: the weight cannot be cut along that axis
    turned: bool = False  #: whether its parts have the inputs before the outputs
    confirm: Callable[..., str | None] | None = None
    #: (parts as stored, shape of the whole decoded weight) → what is wrong with the values of companions


def by_companions(name: str, reading: Read) -> Callable[[Mapping[str, TensorHeader], Mapping[str, Any]], Iterator[Stored]]:
    """A recogniser that takes each tensor whose reading finds all of its companions."""

    def recognise(headers: Mapping[str, TensorHeader], config: Mapping[str, Any]) -> Iterator[Stored]:
        for header in headers.values():
            found = reading(header, headers, config)
            if found is not None:
                companions = {part: want.find(headers) for part, want in found.wants.items()}
                parts = {part: companion for part, companion in companions.items() if companion is not None}
                if len(parts) == len(found.wants):
                    yield Stored(found.name, name, found.shape, {"data": header, **parts}, found.block, found.slack)

    return recognise


def by_rows(stored: Stored, axis: int) -> Steps | None:
    """`Format.steps` of formats whose rows are independent: each part has an axis for the outputs in the same place, or serves all."""
    if axis != len(stored.shape) - 2:
        return None
    rows = stored.shape[axis]
    return {part: (axis, 1) for part, header in stored.kept.items() if len(header.shape) > axis and header.shape[axis] == rows}
