"""Sparse attention on this CPU: ours beside torch's attention over all keys with a mask of those that were chosen (without sinks, which it does
not know), and beside each operator's plain meaning, in the same run.

    python bench/sparse.py [--threads 1] [--rounds 3] [--context 16384]

Heads of DeepSeek-V4-Flash and MiniMax-M3 in bfloat16, one sequence: its last 64 tokens in prefill, one in decode. Processor time with one
thread, else by the clock; milliseconds, medians of rounds in turn.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from day0.spec.registry import kernels, ops
from day0.spec.step import Segment

PAGE = 128
Way = Callable[[], Any]


def segment(tokens: int, context: int) -> Segment:
    pages = -(-context // PAGE)
    return Segment(
        phase="prefill" if tokens > 1 else "decode", tokens_T=torch.zeros(tokens, dtype=torch.int64), queries=(tokens,), lengths=(context,),
        positions_T=torch.arange(context - tokens, context), entries_N={}, table_BP=torch.arange(pages)[None], runs=(0,), slots=(0,),
    )  # fmt: skip


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.bfloat16)


def distinct(rows: int, count: int, below: int) -> Tensor:
    """[rows, count] numbers, the last one that there is among them."""
    chosen = torch.rand(rows, below - 1).topk(min(count, below) - 1).indices
    return torch.cat((chosen, torch.full((rows, 1), below - 1)), dim=1)


def masked(numbers: Tensor, count: int) -> Tensor:
    return torch.zeros(*numbers.shape[:-1], count, dtype=torch.bool).scatter(-1, numbers, True)


def block_sparse(tokens: int, context: int) -> dict[str, dict[str, Any]]:
    """MiniMax-M3: 64 heads of 128 over 4 key heads, 16 blocks of 128 tokens."""
    H, N, Q, block, K = 64, 4, 128, 128, 16
    q, k, v, s = drawn(tokens, H, Q), drawn(context // PAGE, PAGE, N, Q), drawn(context // PAGE, PAGE, N, Q), segment(tokens, context)
    chosen = distinct(tokens * N, K, context // block).view(tokens, N, -1)
    mask = masked(chosen, context // block).repeat_interleave(block, -1) & (torch.arange(context) <= s.positions_T[:, None, None])
    mask = mask.transpose(0, 1).repeat_interleave(H // N, 0)[None]
    rows = (q.transpose(0, 1)[None], k.flatten(0, 1).transpose(0, 1)[None], v.flatten(0, 1).transpose(0, 1)[None])
    return {
        "block_sparse_attention": {
            "given": (q, k, v, s, chosen, block, Q**-0.5),
            "dense": lambda: scaled_dot_product_attention(*rows, attn_mask=mask, scale=Q**-0.5, enable_gqa=True),
        },
        "choose_blocks": {"given": (drawn(tokens, N, Q), drawn(context // PAGE, PAGE, Q), s, block, K, 1)},
    }


def compressed(tokens: int, context: int) -> dict[str, dict[str, Any]]:
    """DeepSeek-V4-Flash: 64 heads of 512, a window of 128, 512 entries of 4 tokens chosen by 64 heads of 128."""
    H, Q, window, every, K, indexers, width = 64, 512, 128, 4, 512, 64, 128
    N, s = context // every, segment(tokens, context)
    q, ring, pool, sinks = drawn(tokens, H, Q), drawn(1, window - 1 + tokens, Q), drawn(context // PAGE, PAGE // every, Q), torch.randn(H)
    chosen = distinct(tokens, K, (context - tokens + 1) // every)
    keys = torch.cat((ring[0], pool.flatten(0, 1)))
    place = torch.arange(context - len(ring[0]), context)
    near = (place <= s.positions_T[:, None]) & (place > s.positions_T[:, None] - window)
    mask = torch.cat((near, masked(chosen, N)), dim=-1)[:, None, None]
    rows = (q[:, None], *[keys.expand(tokens, 1, -1, -1)] * 2)  # heads are the rows of one key head
    return {
        "compressed_attention": {
            "given": (q, ring, pool, s, window, every, sinks, Q**-0.5, chosen),
            "dense": lambda: scaled_dot_product_attention(*rows, attn_mask=mask, scale=Q**-0.5),
        },
        "choose_entries": {
            "given": (drawn(tokens, indexers, width), drawn(tokens, indexers), drawn(context // PAGE, PAGE // every, width), s, every, K, 0.01),
        },
    }


def seconds(way: Way) -> float:
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    way()
    return clock() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--context", type=int, default=16384)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    print(f"{'operator':28}{'tokens':>8}{'ours':>10}{'masked':>10}{'plain':>10}{'masked / ours':>15}{'plain / ours':>14}")
    for tokens in (64, 1):
        calls = block_sparse(tokens, arguments.context) | compressed(tokens, arguments.context)
        for name, call in calls.items():
            ways = [lambda name=name, given=call["given"]: kernels().get(f"{name}_torch").fn(*given)]
            ways += [call.get("dense", lambda: None), lambda name=name, given=call["given"]: ops().get(name).reference(*given)]
            took = [[seconds(way) for way in ways] for _ in range(arguments.rounds + 1)][1:]  # the first round warms up
            ours, dense, plain = (statistics.median(column) * 1000 for column in zip(*took, strict=True))
            shown = (f"{dense:10.2f}", f"{dense / ours:15.2f}") if "dense" in call else (f"{'':10}", f"{'':15}")
            print(f"{name:28}{tokens:8}{ours:10.2f}{shown[0]}{plain:10.2f}{shown[1]}{plain / ours:14.2f}", flush=True)


if __name__ == "__main__":
    main()
