"""How numbers are stored: what a file in `formats/` exports, and what a checkpoint says about a tensor."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from day0.spec.record import record


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


class Stored(NamedTuple):
    """One weight as it lies on disk: its own tensor and its companions (scales), in one format."""

    name: str  #: checkpoint name of the weight, "….q_proj.weight"
    format: str  #: file name in `formats/`
    shape: tuple[int, ...]  #: of the decoded weight
    parts: Mapping[str, TensorHeader]  #: "data" and the companions the format needs: "scale"
    block: tuple[int, ...] = ()  #: elements that share one scale, along the last axes

    @property
    def bytes(self) -> int:
        """Bytes on disk, companions included."""
        return sum(part.bytes for part in self.parts.values())


@record
class Format:
    """One way to store a weight; knows no operator."""

    name: str  #: the file's name
    order: int  #: recognisers run from small to large; "plain" takes what is left
    recognise: Callable[[Mapping[str, TensorHeader], Mapping[str, Any]], Iterator[Stored]]
    #: (headers not yet taken, quantisation config) → weights in this format
    decode: Callable[..., Any]  #: (parts: name → torch tensor, `Stored.block`, out: tensor) → None; writes the weight in the type of `out`
    packed: bool  #: stays packed at rest and is decoded into the workspace when used
