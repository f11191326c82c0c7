"""The largest steps that a workload allows, as lengths of sequences. Needs no torch."""

from collections.abc import Iterator

from day0.spec.record import record


@record
class Crowd:
    """Sequences of one step: tokens that each holds, new ones included."""

    name: str  #: what makes it large
    decoding: tuple[int, ...]  #: lengths of those that go on by one token
    reading: tuple[tuple[int, int], ...]  #: (length, new tokens) of those whose prompts are read
    scattered: bool  #: whether their pages lie apart, as after requests of many lengths, or in runs


def crowds(context: int, batch: int, chunk: int) -> Iterator[Crowd]:
    """All sequences decode at full length; or a chunk of prompts is read, and what is left of the batch decodes.

    Prompts are read one after the other, so that the first of a chunk may be well on its way, and the others begin. The first takes all
    of the chunk that it can, or half of it, or what whole prompts leave. Whole prompts whose pages are neighbours are one call, so that
    they are tried too. A chunk of more tokens than the batch has is read by more sequences.
    """
    scattered = batch > 1  # one sequence has all pages to itself
    yield Crowd(name="decode", decoding=ragged(context, batch), reading=(), scattered=scattered)
    if batch == 1 and chunk < context < 2 * chunk:  # a sequence alone is read from its start, chunk by chunk
        yield reading("longest", chunk, batch, chunk, chunk, scattered=False)
        yield reading("last", context, batch, context - chunk, context - chunk, scattered=False)
        return
    if batch == 1:
        yield reading("longest", context, batch, chunk, min(chunk, context), scattered=False)
        return
    yield reading("longest", context, batch, chunk, min(chunk, max(1, context - 1)), scattered)
    if chunk >= context:
        yield reading("half", context, batch, chunk, -(-min(chunk, 2 * context) // 2), scattered)
    if chunk > context:
        yield reading("rest", context, batch, chunk, chunk % context or context, scattered)
        yield reading("neighbours", context, batch, chunk, context, scattered=False)


def reading(name: str, context: int, batch: int, chunk: int, first: int, scattered: bool) -> Crowd:
    """A chunk of which the first prompt takes `first` tokens, its last ones, and others the rest."""
    prompts, rest = [(context, first)], chunk - first
    while rest:
        prompts.append((min(rest, context),) * 2)
        rest -= prompts[-1][1]
    return Crowd(name=name, decoding=ragged(context, batch - len(prompts)), reading=tuple(prompts), scattered=scattered)


def ragged(context: int, count: int) -> tuple[int, ...]:
    """Full lengths, but for the last one: sequences of one length need no mask."""
    return (context,) * max(0, count - 1) + (max(1, context - 1),) * min(1, max(0, count))
