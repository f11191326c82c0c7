"""One pass, tensor by tensor, a layer's weights at a time: by our engine, or by the reference."""

from collections.abc import Iterator, Sequence

from torch import Tensor

from day0.community.reference import Reference
from day0.engine.probe import Probe
from day0.spec.progress import Progress

Seen = tuple[int | None, str, Tensor]  # layer, part, tokens first


def follow(probe: Probe, ids: Sequence[int], progress: Progress) -> Iterator[Seen]:
    """What our engine computes of a sequence in one step."""
    stream = probe.embed(ids)
    yield None, "embed", stream
    layers = len(probe.release.model.layers)
    for index in range(layers):
        progress("trace", index, layers)
        result = probe.layer(index, stream, None, [len(ids)], ids=ids)
        for part, added in result.parts.items():
            yield index, part, added
        stream = result.hidden_TD
        yield index, "stream", stream
    yield None, "logits", probe.head(stream)
    progress("trace", layers, layers)


def follow_reference(reference: Reference, layers: int, ids: Sequence[int], progress: Progress) -> Iterator[Seen]:
    """What the reference computes, by the numbers of our `layers`, of which several may stand for one of its own."""
    span, stream, handed = layers // reference.layers, reference.embed(ids), None
    yield None, "embed", stream
    for place in range(reference.layers):
        progress("trace", place, reference.layers)
        run = reference.layer(place, stream, ids=ids, handed=handed)
        for key, added in run.parts.items():
            part, _, half = key.partition(".")
            yield place * span + int(half or 0), part, added
        stream, handed = run.hidden_TD, run.handed
        yield (place + 1) * span - 1, "stream", stream
    yield None, "logits", reference.head(stream)
    progress("trace", reference.layers, reference.layers)
