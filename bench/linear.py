"""The two ways to write a linear map on this CPU, in bfloat16: x · Wᵀ and (W · xᵀ)ᵀ, over matrices that do not fit the cache together.

    python bench/linear.py [--threads 2]

Prints microseconds (medians of 9 passes, in turn) and their ratio; what `kernels/linear_torch.py` chooses by.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

SHAPES = ((960, 576), (3072, 576), (576, 1536), (49152, 576))
ROWS = (2, 4, 8, 16, 32, 128)
BYTES = 200_000_000  # of all matrices of one shape


def seconds(product: Callable[[Tensor], Tensor], matrices: list[Tensor]) -> float:
    start = time.perf_counter()
    for matrix in matrices:
        product(matrix)
    return (time.perf_counter() - start) / len(matrices)


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


if __name__ == "__main__":
    main()
