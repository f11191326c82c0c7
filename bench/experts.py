"""Kernels in C on this CPU: packed experts at decode, and attention over pages; what `docs/cpu.md` has its figures from.

    python bench/experts.py [--threads 2] [--rounds 9]

Experts: one token, eight of 64 experts of 4096 × 2048, in bfloat16; each round takes other experts, which hold 3.2 GB in bfloat16 and
0.9 GB in 4 bits, so that nothing stays in a cache. Beside them torch's products with the same experts unpacked, and decoding before products, as
references do it. Attention: one query for each of some sequences, 32 query heads, 8 key heads of 128, pages of 16 tokens in random order,
beside torch's SDPA on keys and values that lie contiguously, called both ways that it can be called for shared heads. All ways in turn,
medians of the rounds; a ratio is one of medians.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa
from torch.nn.functional import silu

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from day0.spec.activation import Activation
from day0.spec.cases import Draw
from day0.spec.packed import Packed
from day0.spec.registry import kernels
from day0.spec.step import Segment

HIDDEN, WIDTH, TOP, EXPERTS = 4096, 2048, 8, 64
HEADS, SHARED, SIZE, PAGE = 32, 8, 128, 16
DECODED = 3  # rounds of what decodes first
LEAST = 0.02  # seconds that a measurement lasts at the least


def seconds(way: Callable[[int], Any], turn: int, repeats: int) -> float:
    """Of one thread its processor time, which other work on the machine disturbs less."""
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    for _ in range(repeats):
        way(turn)
    return (clock() - start) / repeats


def medians(ways: Mapping[str, Callable[[int], Any]], rounds: int, seldom: frozenset[str] = frozenset()) -> dict[str, float]:
    """Way → milliseconds of a call, several in a row where one is short; `way(round)`. Those done `seldom` have fewer rounds."""
    repeats = {name: max(1, int(LEAST / seconds(way, 0, 1))) for name, way in ways.items()}
    runs: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(1, rounds + 1):
        for name, way in ways.items():
            if name not in seldom or turn <= DECODED:
                runs[name].append(seconds(way, turn, repeats[name]) * 1e3)
    return {name: statistics.median(times) for name, times in runs.items()}


def packed_bank(form: str, rows: int, columns: int) -> Packed:
    """Experts that each have memory of their own, with the same numbers in it."""
    one = Draw(form, "bfloat16").packed(form, 1, rows, columns)
    parts = {name: part.repeat(EXPERTS, 1, 1) if part.ndim else part for name, part in one.parts.items()}
    return replace(one, parts=parts, shape=(EXPERTS, rows, columns))


def unpacked(x: torch.Tensor, chosen: list[int], banks: list[torch.Tensor]) -> torch.Tensor:
    """One token through plain experts by matrix-vector products."""
    gate, up, down = banks
    return torch.stack([torch.mv(down[e], silu(torch.mv(gate[e], x)) * torch.mv(up[e], x)) for e in chosen]).sum(0)


def decoded(x: torch.Tensor, chosen: list[int], banks: list[Packed], rooms: list[torch.Tensor]) -> torch.Tensor:
    """The same, each expert decoded into the same place before."""
    total = torch.zeros_like(x)
    for e in chosen:
        total += unpacked(x, [0], [bank.expert(e).decode(room)[None] for bank, room in zip(banks, rooms, strict=True)])
    return total


def experts(rounds: int) -> None:
    shapes = ((WIDTH, HIDDEN), (WIDTH, HIDDEN), (HIDDEN, WIDTH))
    x, even = torch.randn(1, HIDDEN).bfloat16(), torch.full((1, TOP), 1 / TOP)
    plain = [(torch.randn(shape) * 0.01).bfloat16().repeat(EXPERTS, 1, 1) for shape in shapes]
    rooms = [torch.empty(shape, dtype=torch.bfloat16) for shape in shapes]
    native = kernels().get("experts_c").fn

    def chosen(turn: int) -> list[int]:
        return [(turn * TOP + k) % EXPERTS for k in range(TOP)]

    print(f"experts, one token: {TOP} of {EXPERTS}, {HIDDEN} × {WIDTH}, bfloat16; milliseconds")
    print(f"{'format':10}{'in C':>9}{'bf16':>9}{'decode':>9}{'bf16 / C':>10}{'decode / C':>12}", flush=True)
    for form in ("mxfp4", "int4", "nvfp4", "mxfp8", "fp8_block"):
        banks = [packed_bank(form, *shape) for shape in shapes]
        ways = {
            "c": lambda turn, b=banks: native(x, even, torch.tensor([chosen(turn)]), *b, Activation(kind="silu")),
            "bf16": lambda turn: unpacked(x[0], chosen(turn), plain),
            "decode": lambda turn, b=banks: decoded(x[0], chosen(turn), b, rooms),
        }
        took = medians(ways, rounds, seldom=frozenset({"decode"}))
        cells = "".join(f"{took[name]:9.2f}" for name in ways)
        print(f"{form:10}{cells}{took['bf16'] / took['c']:10.2f}{took['decode'] / took['c']:12.1f}", flush=True)


def segment(batch: int, context: int) -> Segment:
    """Sequences whose pages are in random order."""
    table = torch.randperm(batch * context // PAGE).view(batch, -1)
    return Segment(
        phase="decode", tokens_T=torch.zeros(batch, dtype=torch.int64), positions_T=torch.full((batch,), context - 1), queries=(1,) * batch,
        lengths=(context,) * batch, entries_N={}, table_BP=table, runs=(None,) * batch, slots=tuple(range(batch)),
    )  # fmt: skip


def attention(rounds: int) -> None:
    names = ("in C", "gathered", "SDPA rows", "SDPA gqa")
    print(f"attention, one query a sequence: {HEADS} heads over {SHARED} of {SIZE}, pages of {PAGE}, bfloat16; milliseconds")
    print(f"{'batch':>5}{'context':>9}{''.join(f'{name:>11}' for name in names)}{'C / best SDPA':>15}", flush=True)
    for batch, context in ((1, 2048), (8, 2048), (1, 16384), (8, 16384)):
        k, v = (torch.randn(batch * context // PAGE, PAGE, SHARED, SIZE).bfloat16() for _ in range(2))
        keys, values = (x.view(batch, context, SHARED, SIZE).transpose(1, 2).contiguous() for x in (k, v))
        q, scale, where = torch.randn(batch, HEADS, SIZE).bfloat16(), SIZE**-0.5, segment(batch, context)
        rows = q.view(batch, SHARED, HEADS // SHARED, SIZE)
        native, gathered = (kernels().get(name).fn for name in ("paged_attention_c", "paged_attention_decode_torch"))
        ways = {
            "in C": lambda _, a=(q, k, v, where, scale), f=native: f(*a),
            "gathered": lambda _, a=(q, k, v, where, scale), f=gathered: f(*a),
            "SDPA rows": lambda _, a=(rows, keys, values), s=scale: sdpa(*a, scale=s),
            "SDPA gqa": lambda _, a=(q[:, :, None], keys, values), s=scale: sdpa(*a, scale=s, enable_gqa=True),
        }
        took = medians(ways, rounds)
        best = min(took["SDPA rows"], took["SDPA gqa"])
        print(f"{batch:5}{context:9}{''.join(f'{took[name]:11.2f}' for name in names)}{took['in C'] / best:15.2f}", flush=True)


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    experts(args.rounds)
    attention(args.rounds)


if __name__ == "__main__":
    main()
