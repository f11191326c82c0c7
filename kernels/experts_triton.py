"""Routed experts over weights as they lie at rest: choices sorted by expert, two products by groups, a weighed sum."""

from __future__ import annotations

from typing import Any

from day0.kernels.tiles.activated import constants
from day0.kernels.tiles.matrix import HALVES, PACKED, matrix, unreadable
from day0.kernels.tiles.routed import lower_tokens, raise_tokens, sort_choices, weigh
from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import torch, triton
from day0.spec.ops import Impl, Site
from day0.spec.tuning import tuned

MOST = 1024  # experts that choices are sorted by
SPILLED = {"gptq": {"sm_100": "16 bytes a thread, while words of eight codes are taken apart"}}
FLOOR, LEAST = 1 << 22, 128  # elements that a step may hold however short it is, and columns that are summed at once however long it is


def launch(
    x_TD: Any, weights_TK: Any, experts_TK: Any, gate_EFD: Any, up_EFD: Any, down_EDF: Any, activation: Any,
    biases: Any = None, identity_from: int | None = None, scale_input: bool = False,
) -> Any:  # fmt: skip
    """Holds, beside the result, 3 (F + D) elements a token at the most: tokens, and columns of what experts give, are taken in portions."""
    x_TD = x_TD if x_TD.stride(-1) == 1 else x_TD.contiguous()
    out_TD = torch.empty(x_TD.shape, dtype=x_TD.dtype, device=x_TD.device)
    (T, D), K, F = x_TD.shape, experts_TK.shape[1], up_EFD.shape[1]
    room = max(FLOOR, 3 * (F + D) * T)
    tokens = max(1, min(T, room // (K * (F + LEAST))))
    columns = min(D, max(LEAST, (room // (K * tokens) - F) // LEAST * LEAST))
    banks = matrix(gate_EFD) if activation.gated else None, matrix(up_EFD), matrix(down_EDF)
    for start in range(0, T, tokens):
        part = slice(start, start + tokens)
        chosen = weights_TK[part].contiguous(), experts_TK[part].contiguous()
        run(x_TD[part], out_TD[part], *chosen, *banks, constants(activation), biases or (None, None, None), scale_input, columns)
    return out_TD


def run(
    x: Any, out: Any, weights: Any, experts: Any, gate: Any, up: Any, down: Any, chosen: Any, biases: Any, scale_input: bool, columns: int
) -> None:  # fmt: skip
    (T, D), K, (E, F, _) = x.shape, experts.shape[1], up.shape
    assert gate is None or gate.meaning(1) == up.meaning(1), "gate and up are stored alike"
    sizes = tuned("experts", x.device, T=-(-T * K // E), bits=up.bits, scattered=up.scattered)
    blocks = T * K // sizes["BLOCK_T"] + min(E, T * K)
    order = torch.empty(T * K, dtype=torch.int32, device=x.device)
    table = torch.empty(3 * blocks, dtype=torch.int32, device=x.device)
    cursor = torch.empty(E, dtype=torch.int32, device=x.device)
    bins = triton.next_power_of_2(E)
    chunk = min(1024, max(32, triton.next_power_of_2(T * K)))
    sort_choices[(1,)](experts, order, cursor, table, T * K, E, blocks, BINS=bins, BLOCK_T=sizes["BLOCK_T"], CHUNK=chunk, SPAN=16, num_warps=8)
    hidden = torch.empty(T * K, F, dtype=x.dtype, device=x.device)
    raise_tokens[(triton.cdiv(F, sizes["BLOCK_O"]), blocks)](
        x, hidden, weights if scale_input else None, order, table, blocks, K, F, D, x.stride(0), gate and gate.tensors, gate and gate.lie,
        biases[0], up.tensors, up.lie, biases[1], MEANING=up.meaning(sizes["BLOCK_I"]), CHOSEN=chosen, **sizes,
    )  # fmt: skip
    given = torch.empty(T * K * columns, dtype=x.dtype, device=x.device)
    for first in range(0, D, columns):
        end = min(D, first + columns)
        lower_tokens[(triton.cdiv(end - first, sizes["BLOCK_O"]), blocks)](
            hidden, given, order, table, blocks, D, F, first, end, down.tensors, down.lie, biases[2], MEANING=down.meaning(sizes["BLOCK_I"]),
            **sizes,
        )  # fmt: skip
        wide = min(1024, triton.next_power_of_2(end - first))
        weigh[(triton.cdiv(T, 1024 // wide), triton.cdiv(end - first, wide))](
            given, x, out, weights, experts, T, K, D, E, first, end, x.stride(0), WEIGHED=not scale_input, BLOCK_T=1024 // wide, BLOCK_D=wide,
        )  # fmt: skip


def refuses(site: Site, machine: Any) -> str | None:
    reason = unlaunchable(site, machine, ("plain", *PACKED), HALVES) or unreadable(site)
    return reason or (f"sorts by {MOST} experts at the most, not {site.E}" if site.E > MOST else None)


IMPL = Impl(op="experts", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = (
    *(Build(sizes={"T": 16, "D": 7168, "F": 2048, "K": 8}, format=form, explained=SPILLED.get(form, {})) for form in ("plain", *PACKED)),
    *(Build(sizes={"T": 64, "D": 7168, "F": 2048, "K": 8}, format=form) for form in ("plain", "fp8_block")),
    *(Build(sizes={"T": 2048, "D": 7168, "F": 2048, "K": 8}, format=form) for form in ("plain", "fp8_block", "mxfp4")),
)
