"""Where the tokens of several sequences lie, as tables on the device that a step makes once."""

from __future__ import annotations

from typing import Any

from day0.spec.lazy import torch, triton


def runs(segment: Any, tokens: int, device: Any, ring: bool = False) -> Any:
    """[runs, 4] int32: row of the table of pages or slot of the ring, first token, tokens (at most `tokens`), position of the first."""
    key = "runs", tokens, ring
    if key not in segment.shared:
        rows = [
            (segment.slots[b] if ring else b, first, count, segment.lengths[b] - segment.queries[b] + offset)
            for b, first, count, offset in cut(segment.queries, tokens)
        ]
        segment.shared[key] = torch.tensor(rows, dtype=torch.int32, device=device)
    return segment.shared[key]


def cut(queries: tuple[int, ...], tokens: int) -> list[tuple[int, int, int, int]]:
    """(sequence, first token, tokens, new tokens of the sequence before them) of each run of at most `tokens`."""
    rows, start = [], 0
    for b, count in enumerate(queries):
        rows += [(b, start + offset, min(tokens, count - offset), offset) for offset in range(0, count, tokens)]
        start += count
    return rows


def spans(queries: tuple[int, ...], device: Any, tokens: int | None = None) -> Any:
    """[runs, 2] int32: first token and tokens of each sequence, or of each run of at most `tokens`."""
    rows = [(first, count) for _, first, count, _ in cut(queries, tokens or max(queries))]
    return torch.tensor(rows, dtype=torch.int32, device=device)


def once(chosen_K: Any) -> Any:
    """Chosen numbers in rising order along the last axis, each once; -1 in place of its other mentions."""
    ordered = chosen_K.sort(dim=-1).values
    again = torch.cat((torch.zeros_like(ordered[..., :1], dtype=torch.bool), ordered[..., 1:] == ordered[..., :-1]), dim=-1)
    return ordered.masked_fill(again, -1)


def halves(width: int) -> tuple[int, int]:
    """Two powers of two that hold a width together; the second is 0 where the first does alone."""
    head = max(16, 1 << (width.bit_length() - 1))
    tail = max(16, triton.next_power_of_2(width - head)) if width > head else 0
    return (2 * head, 0) if tail >= head else (head, tail)
