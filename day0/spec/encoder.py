"""What turns an image into embeddings of a language model: patches, layers, connector."""

from collections.abc import Iterator

from day0.spec.model import Layer, PartSpec
from day0.spec.record import record


@record
class Encoder:
    """The tower for images. It reads one view of an image at a time, every patch seeing every other."""

    hidden: int  #: width D of its stream
    patches: PartSpec  #: how pixels become the stream
    layers: tuple[Layer, ...]  #: the stack, in order
    connector: PartSpec  #: how the stream becomes embeddings of the language model
    taps: tuple[tuple[int, PartSpec], ...] = ()  #: (layer, connector): what it makes of the stream after that layer is added to the language
    #: model's, at the image's tokens: what comes first after the first layer of the language model, and so on (arXiv 2406.04334)
    out: int  #: width of the embeddings, the language model's
    token: int  #: id that stands in a prompt for each embedding of an image
    processor: str  #: file name in `preprocessors/`
    side: int  #: pixels along each side of a patch
    frames: int  #: times that a still image is repeated in a patch
    merge: int  #: patches along each side of the square that becomes one embedding
    squares: int = 1  #: patches come in squares of so many along each side, row by row within one; 1: row by row
    view: int | None = None  #: patches of the largest view; None: an image is one view

    def places(self) -> Iterator[tuple[int | None, str, PartSpec]]:
        """(layer or None, place, part) of everything that has weights."""
        yield None, "patches", self.patches
        for layer in self.layers:
            for place, part in layer.parts():
                yield layer.index, place, part
        for number, (_, part) in enumerate(self.taps):
            yield None, f"taps.{number}", part
        yield None, "connector", self.connector
