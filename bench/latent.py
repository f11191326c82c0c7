"""Latent attention on this CPU: ours beside torch's attention called with values as narrow as they are, in the same run.

    python bench/latent.py [--threads 1] [--rounds 5]

Heads of DeepSeek-V3 and Kimi K3: keys of 192, values of 128 where latents are expanded (prefill), keys of 576 and values of 512 in latent space
(decode). Processor time with one thread, else by the clock; milliseconds, medians of rounds in turn.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from day0.spec.registry import kernels

HEADS, PLAIN, ROTATED, VALUE, LATENT = 16, 128, 64, 128, 512
Way = Callable[[], Tensor]


def seconds(way: Way) -> float:
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    way()
    return clock() - start


def prefill(tokens: int, context: int, dtype: torch.dtype) -> tuple[Way, Way]:
    """(ours, torch's) over expanded keys and values, the last `tokens` of `context`."""
    q, k = torch.randn(tokens, HEADS, PLAIN + ROTATED, dtype=dtype), torch.randn(context, HEADS, PLAIN + ROTATED, dtype=dtype)
    v, scale = torch.randn(context, HEADS, VALUE, dtype=dtype), (PLAIN + ROTATED) ** -0.5
    mask = torch.ones(tokens, context, dtype=torch.bool).tril(context - tokens) if tokens < context else None
    rows = [x.transpose(0, 1)[None] for x in (q, k, v)]
    return (
        lambda: kernels().get("attention_torch").fn(q, k, v, scale),
        lambda: scaled_dot_product_attention(*rows, attn_mask=mask, is_causal=mask is None, scale=scale),
    )


def decode(heads: int, context: int, dtype: torch.dtype) -> tuple[Way, Way]:
    """(ours, torch's) over the latents of one sequence."""
    q, entries = torch.randn(1, heads, LATENT + ROTATED, dtype=dtype), torch.randn(context, LATENT + ROTATED, dtype=dtype)
    scale, segment = (PLAIN + ROTATED) ** -0.5, SimpleNamespace(entries=lambda pages, b, group: pages)
    return (
        lambda: kernels().get("latent_attention_torch").fn(q[..., :LATENT], q[..., LATENT:], entries, segment, scale),
        lambda: scaled_dot_product_attention(q[None], entries[None, None], entries[None, None, :, :LATENT], scale=scale),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"{'call':28}{'type':>10}{'ours':>10}{'torch':>10}{'torch / ours':>14}")
    for dtype in (torch.float32, torch.bfloat16):
        calls = {f"prefill, {T} of {S} tokens": prefill(T, S, dtype) for T, S in ((512, 512), (64, 4096), (512, 4096))}
        calls |= {f"decode, {H} heads over {S}": decode(H, S, dtype) for H, S in ((16, 4096), (128, 4096), (96, 32768))}
        for name, ways in calls.items():
            took = [[seconds(way) for way in ways] for _ in range(arguments.rounds + 1)][1:]  # the first round warms up
            ours, theirs = (statistics.median(column) * 1000 for column in zip(*took, strict=True))
            print(f"{name:28}{str(dtype).removeprefix('torch.'):>10}{ours:10.2f}{theirs:10.2f}{theirs / ours:14.2f}", flush=True)


if __name__ == "__main__":
    main()
