"""Attended latents into the heads' value space: one matrix product a head, read where the weight lies."""

from __future__ import annotations

from typing import Any

from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import tl, torch, triton
from day0.spec.ops import Impl, Site


@triton.jit
def expand(
    latent, weight, out, T, H, V, rows, token, latent_head, C: tl.constexpr, TOKENS: tl.constexpr, COLUMNS: tl.constexpr, INNER: tl.constexpr
):
    head = tl.program_id(1).to(tl.int64)
    t = tl.program_id(2) * TOKENS + tl.arange(0, TOKENS)
    v = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    acc = tl.zeros([TOKENS, COLUMNS], tl.float32)
    for start in range(0, C, INNER):
        i = start + tl.arange(0, INNER)
        given = latent + (t.to(tl.int64) * token + head * latent_head)[:, None] + i[None, :]
        given = tl.load(given, mask=(t < T)[:, None] & (i < C)[None, :], other=0.0)
        value = weight + (((head + 1) * rows - V + v) * C)[None, :] + i[:, None]
        value = tl.load(value, mask=(v < V)[None, :] & (i < C)[:, None], other=0.0)
        acc = tl.dot(given, value, acc, input_precision="bf16x6")
    result = out + ((t.to(tl.int64) * H + head) * V)[:, None] + v[None, :]
    tl.store(result, acc.to(out.dtype.element_ty), mask=(t < T)[:, None] & (v < V)[None, :])


def launch(o_THC: Any, kv_b_OC: Any, v_dim: int) -> Any:
    T, H, C = o_THC.shape
    o_THC, kv_b_OC = (x if x.stride(-1) == 1 else x.contiguous() for x in (o_THC, kv_b_OC))
    out_THV = torch.empty(T, H, v_dim, dtype=o_THC.dtype, device=o_THC.device)
    tokens, columns = max(16, min(64, triton.next_power_of_2(T))), max(16, min(128, triton.next_power_of_2(v_dim)))
    expand[triton.cdiv(v_dim, columns), H, triton.cdiv(T, tokens)](
        o_THC, kv_b_OC, out_THV, T, H, v_dim, kv_b_OC.shape[0] // H, o_THC.stride(0), o_THC.stride(1), C=C, TOKENS=tokens,
        COLUMNS=columns, INNER=32,
    )  # fmt: skip
    return out_THV


def refuses(site: Site, machine: Any) -> str | None:
    return unlaunchable(site, machine)


IMPL = Impl(op="expand_value", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = tuple(Build(sizes={"T": T, "H": 128, "Q": 128, "V": 128, "C": 512}) for T in (1, 64))
