"""Softmax over keys that come a tile at a time (arXiv 2205.14135), and over parts of them that programs of their own read (Flash-Decoding).

Scores are exponents of 2, in float32; minus infinity for what is not seen.
"""

from __future__ import annotations

from typing import Any

from day0.spec.lazy import tl, torch, triton

LOG2E = 1.4426950408889634  # a scale times this makes exponents of e those of 2
PROGRAMS, SHORTEST = 512, 128  # so many programs keep a large card busy; keys of the shortest part


@triton.jit
def fold(scores, best, total):
    """(weights, fade, best, total) with scores [rows, keys] taken in: what was summed before is to be multiplied by `fade`."""
    above = tl.maximum(best, tl.max(scores, 1))
    base = tl.where(above == float("-inf"), 0.0, above)
    weights, fade = tl.exp2(scores - base[:, None]), tl.exp2(best - base)
    return weights, fade, above, total * fade + tl.sum(weights, 1)


@triton.jit
def put(out, sums, row, real, e, WIDTH: tl.constexpr, acc, best, total):
    """Store the result of a program, and where it is one of several parts the logarithm of its sum."""
    value = (acc / tl.where(total == 0.0, 1.0, total)[:, None]).to(out.dtype.element_ty)
    tl.store(out + (row * WIDTH)[:, None] + e[None, :], value, mask=real[:, None] & (e < WIDTH)[None, :])
    if sums is not None:
        tl.store(sums + row, best + tl.log2(total), mask=real)


@triton.jit
def join(partial, sums, out, parts, WIDTH: tl.constexpr, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    p, e = tl.arange(0, PARTS), tl.arange(0, BLOCK)
    best = tl.max(tl.load(sums + row * parts + p, mask=p < parts, other=float("-inf")), 0)
    acc, total = tl.zeros([BLOCK], tl.float32), 0.0
    for part in range(parts):
        weight = tl.exp2(tl.load(sums + row * parts + part) - best)
        acc += weight * tl.load(partial + (row * parts + part) * WIDTH + e, mask=e < WIDTH, other=0.0)
        total += weight
    tl.store(out + row * WIDTH + e, (acc / total).to(out.dtype.element_ty), mask=e < WIDTH)


def divide(programs: int, keys: int) -> int:
    """Parts that `keys` keys are cut into where there are `programs` programs for each part."""
    return max(1, min(PROGRAMS // programs, keys // SHORTEST))


def results(q: Any, width: int, parts: int) -> tuple[Any, Any, Any]:
    """[T, H, width] in the type of q, then what a program writes: the same, or parts [T, H, parts, width] and sums [T, H, parts] in float32."""
    T, H, _ = q.shape
    out = torch.empty(T, H, width, dtype=q.dtype, device=q.device)
    if parts == 1:
        return out, out, None
    partial, sums = (torch.empty(T, H, parts, *last, dtype=torch.float32, device=q.device) for last in ((width,), ()))
    return out, partial, sums


def joined(out: Any, partial: Any, sums: Any) -> Any:
    """The result of all parts."""
    if sums is not None:
        parts, width = partial.shape[2:]
        block = triton.next_power_of_2(width)
        join[(sums[..., 0].numel(),)](
            partial, sums, out, parts, WIDTH=width, PARTS=triton.next_power_of_2(parts), BLOCK=block, num_warps=max(1, block // 128)
        )
    return out
