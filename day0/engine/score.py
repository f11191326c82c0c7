"""Logits of every token of several sequences, run as one batch in mixed phases: chunks of prefill, then one token at a time."""

from collections.abc import Sequence as Ordered

import torch
from torch import Tensor

from day0.engine.model import Forward
from day0.engine.state import Sequence, State
from day0.engine.vision import axes
from day0.spec.errors import Day0Error
from day0.spec.picture import Placed
from day0.spec.step import Step


def score(
    forward: Forward, state: State, sequences: Ordered[Ordered[int]], *, chunk: int | None = None, decode_from: int | None = None,
    images: Ordered[Ordered[Placed]] | None = None,
) -> list[Tensor]:  # fmt: skip
    """Float32 logits [tokens, W] of each sequence, on the CPU.

    Tokens before place `decode_from` (None: all) are read in chunks of `chunk` (None: all at once), the rest one by one by the decode path.
    `images` are those of each sequence; Sequences advance side by side, so that steps hold both phases once the shorter ones decode.
    """
    admitted = [_admit(forward, state, index, tokens, images[index] if images else ()) for index, tokens in enumerate(sequences)]
    results = [torch.empty(len(tokens), forward.model.vocab) for tokens in sequences]
    while any(s.length < len(tokens) for s, tokens in zip(admitted, sequences, strict=True)):
        places = [_next(s, tokens, chunk, decode_from) for s, tokens in zip(admitted, sequences, strict=True)]
        decoding = [b for b, (count, decodes) in enumerate(places) if count and decodes]
        reading = [b for b, (count, decodes) in enumerate(places) if count and not decodes]
        starts = {b: admitted[b].length for b in decoding + reading}
        news = {b: sequences[b][starts[b] : starts[b] + places[b][0]] for b in starts}
        chunks = [(starts[b], len(news[b]), images[b] if images else ()) for b in decoding + reading]
        inserted = forward.vision.images(0, chunks) if forward.vision else None
        decode = state.segment("decode", [(admitted[b], news[b]) for b in decoding]) if decoding else None
        prefill = state.segment("prefill", [(admitted[b], news[b]) for b in reading]) if reading else None
        total = sum(len(new) for new in news.values())
        rows = torch.arange(total, device=state.device)
        hidden_TD = forward.hidden(Step(decode=decode, prefill=prefill, outputs=rows, images=inserted))
        at = 0
        for b in decoding + reading:
            count = len(news[b])
            results[b][starts[b] : starts[b] + count] = forward.logits(hidden_TD[at : at + count])
            at += count
    for sequence in admitted:
        state.free(sequence)
    return results


def _next(sequence: Sequence, tokens: Ordered[int], chunk: int | None, decode_from: int | None) -> tuple[int, bool]:
    """How many tokens the sequence takes in the next step, and whether by the decode path."""
    border = len(tokens) if decode_from is None else min(decode_from, len(tokens))
    if sequence.length >= border:
        return min(1, len(tokens) - sequence.length), True
    return min(border - sequence.length, chunk or len(tokens)), False


def _admit(forward: Forward, state: State, index: int, tokens: Ordered[int], images: Ordered[Placed]) -> Sequence:
    if not tokens:
        raise Day0Error(f"sequence {index} is empty")
    sequence = state.admit(len(tokens))
    assert sequence is not None, "the plan holds every sequence"
    if images and forward.vision is not None:
        forward.vision.require(images)
        sequence.axes_3S = axes(len(tokens), images, forward.vision.encoder.merge)
    return sequence
