"""The two ways to write a linear map on this CPU, in bfloat16: x · Wᵀ and (W · xᵀ)ᵀ, over matrices that do not fit the cache together.

    python bench/linear.py [--threads 2]

Prints microseconds (medians of 9 passes, in turn) and their ratio; what `kernels/linear_torch.py` chooses by. Then one pass of
matrix-vector products over such matrices in ordinary and in huge pages, which `day0/engine/heap.py` asks for.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from day0.engine.heap import use_huge_pages

SHAPES = ((960, 576), (3072, 576), (576, 1536), (49152, 576))
ROWS = (2, 4, 8, 16, 32, 128)
BYTES = 200_000_000  # of all matrices of one shape


def seconds(product: Callable[[Tensor], Tensor], matrices: list[Tensor]) -> float:
    start = time.perf_counter()
    for matrix in matrices:
        product(matrix)
    return (time.perf_counter() - start) / len(matrices)


def laid(out: int, width: int, count: int, huge: bool) -> list[Tensor]:
    """Matrices in one block of memory."""
    block = torch.empty(count * out * width, dtype=torch.bfloat16)
    if huge:
        use_huge_pages([block])
    return list(block.normal_().view(count, out, width))


def compare_pages() -> None:
    """One row, every matrix once, in both kinds of page."""
    print(f"{'matrix':>14} {'4 KiB':>15} {'huge':>9} {'ratio':>6}   microseconds, one row")
    for out, width in SHAPES[:3]:
        x, count = torch.randn(width).bfloat16(), BYTES // (2 * out * width)
        kinds = [laid(out, width, count, huge) for huge in (False, True)]
        runs = [[seconds(lambda w, x=x: torch.mv(w, x), matrices) for matrices in kinds] for _ in range(9)]
        small, huge = (statistics.median(run[i] for run in runs) * 1e6 for i in (0, 1))
        print(f"{out:>7}×{width:<6} {small:15.0f} {huge:9.0f} {small / huge:6.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    torch.set_num_threads(parser.parse_args().threads)
    print(f"{'matrix':>14} {'rows':>5} {'x·Wᵀ':>9} {'(W·xᵀ)ᵀ':>9} {'ratio':>6}   microseconds")
    for out, width in SHAPES:
        matrices = [torch.randn(out, width).bfloat16() for _ in range(min(60, max(2, BYTES // (2 * out * width))))]
        for rows in ROWS:
            x = torch.randn(rows, width).bfloat16()
            ways = (lambda w, x=x: torch.nn.functional.linear(x, w), lambda w, x=x: torch.mm(w, x.t()).t().contiguous())
            runs = [[seconds(way, matrices) for way in ways] for _ in range(9)]
            plain, turned = (statistics.median(run[i] for run in runs) * 1e6 for i in (0, 1))
            print(f"{out:>7}×{width:<6} {rows:5} {plain:9.0f} {turned:9.0f} {plain / turned:6.2f}", flush=True)
    compare_pages()


if __name__ == "__main__":
    main()
