"""RMS norm on this CPU: torch's operator beside the length of each row; what `kernels/rms_norm_torch.py` chooses by.

    python bench/rms_norm.py [--threads 2]

Prints microseconds, medians of 9 passes in turn.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import rms_norm


def by_length(x: Tensor, weight_D: Tensor) -> Tensor:
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
    return (x * length.square_().div_(x.shape[-1]).add_(1e-6).rsqrt_()).mul_(weight_D).to(x.dtype)


def seconds(norm: Callable[[], Tensor]) -> float:
    start = time.perf_counter()
    for _ in range(50):
        norm()
    return (time.perf_counter() - start) / 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    torch.set_num_threads(parser.parse_args().threads)
    print(f"{'type':10}{'rows':>6} ×{'width':>6}{'torch':>9}{'length':>9}   microseconds")
    for dtype in (torch.bfloat16, torch.float32):
        for rows, width in ((1, 576), (8, 576), (128, 576), (1024, 576), (1, 7168), (128, 7168)):
            x, weight = torch.randn(rows, width).to(dtype), torch.randn(width).to(dtype)
            ways = (lambda x=x, w=weight: rms_norm(x, w.shape, w, 1e-6), lambda x=x, w=weight: by_length(x, w))
            runs = [[seconds(way) for way in ways] for _ in range(9)]
            whole, length = (statistics.median(run[i] for run in runs) * 1e6 for i in (0, 1))
            print(f"{str(dtype)[6:]:10}{rows:6} ×{width:6}{whole:9.0f}{length:9.0f}", flush=True)


if __name__ == "__main__":
    main()
