"""Gated pooling in Triton: a program takes some channels of one run of tokens. Runs and tokens may lie apart."""

from __future__ import annotations

from typing import Any

from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import tl, torch, triton
from day0.spec.ops import Impl, Site
from day0.spec.tuning import warps

TILE = 4096  # elements of a program


@triton.jit
def pool(
    values, gates, bias, y, S, Q, value_t, value_s, gate_t, gate_s, BLOCK_S: tl.constexpr, BLOCK_Q: tl.constexpr
):  # fmt: skip
    t = tl.program_id(0).to(tl.int64)
    s = tl.arange(0, BLOCK_S)[:, None]
    q = (tl.program_id(1) * BLOCK_Q + tl.arange(0, BLOCK_Q))[None, :]
    inside = (s < S) & (q < Q)
    gate = tl.load(gates + t * gate_t + s * gate_s + q, mask=inside, other=float("-inf")).to(tl.float32)
    gate += tl.load(bias + s * Q + q, mask=inside, other=0).to(tl.float32)
    weight = tl.where(inside, tl.exp(gate - tl.max(gate, axis=0, keep_dims=True)), 0)
    value = tl.load(values + t * value_t + s * value_s + q, mask=inside, other=0).to(tl.float32)
    pooled = tl.sum(weight * value, axis=0, keep_dims=True) / tl.sum(weight, axis=0, keep_dims=True)
    tl.store(y + t * Q + q, pooled.to(y.dtype.element_ty), mask=q < Q)


def launch(values_TSQ: Any, gates_TSQ: Any, bias_SQ: Any) -> Any:
    values, gates = (one if one.stride(-1) == 1 else one.contiguous() for one in (values_TSQ, gates_TSQ))
    T, S, Q = values.shape
    y = torch.empty((T, Q), dtype=values.dtype, device=values.device)
    rows = triton.next_power_of_2(S)
    columns = min(triton.next_power_of_2(Q), max(16, TILE // rows))
    pool[(T, triton.cdiv(Q, columns))](
        values, gates, bias_SQ.contiguous(), y, S, Q, values.stride(0), values.stride(1), gates.stride(0), gates.stride(1), BLOCK_S=rows,
        BLOCK_Q=columns, num_warps=warps(rows * columns),
    )  # fmt: skip
    return y


def refuses(site: Site, machine: Any) -> str | None:
    return unlaunchable(site, machine)


IMPL = Impl(op="gated_pool", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = (Build(sizes={"T": 16, "S": 8, "Q": 512}), Build(sizes={"T": 4, "S": 128, "Q": 512}))
