"""The gated delta rule: token by token where there is one new token a sequence, else in chunks.

In chunks, a first kernel solves each chunk's triangular system for what its keys replace, all chunks at once; a second one carries the
state of one head through the chunks (arXiv 2412.06464, §3.3; with decays by channel arXiv 2510.26692, §4). Every factor is a decay between
two tokens, at most 1, so that strong decays cannot overflow. All in float32; its products in six bfloat16 products, as precise.
"""

from __future__ import annotations

from typing import Any

from day0.kernels.tiles.runs import spans
from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import tl, torch, triton
from day0.spec.ops import Impl, Site
from day0.spec.tuning import tuned

CHUNK = 16  # tokens
EPS = 1e-6  # added to the sum of squares of a query or key


@triton.jit
def unit(pointer, mask, EPS: tl.constexpr):
    x = tl.load(pointer, mask=mask, other=0.0).to(tl.float32)
    return x * tl.rsqrt(tl.sum(x * x, 1, keep_dims=True) + EPS)


@triton.jit
def prepare(
    q, k, decay, beta, tiles, replaced, scores, q_token, q_head, k_token, k_head, share, scale, N: tl.constexpr, Q: tl.constexpr,
    CHANNELS: tl.constexpr, SIZE: tl.constexpr, HEAD: tl.constexpr, OUT: tl.constexpr, EPS: tl.constexpr,
):  # fmt: skip
    tile, n = tiles + tl.program_id(0) * 2, tl.program_id(1)
    first, count = tl.load(tile), tl.load(tile + 1)
    i, j, d = tl.arange(0, SIZE), tl.arange(0, SIZE), tl.arange(0, HEAD)
    token, real = (first + i).to(tl.int64), i < count
    inside, head = real[:, None] & (d < Q)[None, :], n // share
    q_i = unit(q + (token * q_token + head * q_head)[:, None] + d[None, :], inside, EPS) * scale
    k_i = unit(k + (token * k_token + head * k_head)[:, None] + d[None, :], inside, EPS)
    b = tl.load(beta + token * N + n, mask=real, other=0.0).to(tl.float32)
    later = i[:, None] < j[None, :]
    if CHANNELS:
        total = tl.cumsum(tl.load(decay + ((token * N + n) * Q)[:, None] + d[None, :], mask=inside, other=0.0).to(tl.float32), 0)
        keys, seen = tl.zeros([SIZE, SIZE], tl.float32), tl.zeros([SIZE, SIZE], tl.float32)
        for column in range(SIZE):
            one = (i == column)[:, None]
            k_j, total_j = tl.sum(tl.where(one, k_i, 0.0), 0), tl.sum(tl.where(one, total, 0.0), 0)
            kept = k_j[None, :] * tl.exp(tl.where((i >= column)[:, None], total - total_j[None, :], 0.0))
            here = (j == column)[None, :]
            keys = tl.where(here, tl.sum(k_i * kept, 1)[:, None], keys)
            seen = tl.where(here, tl.sum(q_i * kept, 1)[:, None], seen)
    else:
        total = tl.cumsum(tl.load(decay + token * N + n, mask=real, other=0.0).to(tl.float32), 0)
        kept = tl.exp(tl.where(later, 0.0, total[:, None] - total[None, :]))
        keys = tl.dot(k_i, tl.trans(k_i), input_precision="bf16x6") * kept
        seen = tl.dot(q_i, tl.trans(k_i), input_precision=OUT) * kept
    keys = tl.where(i[:, None] > j[None, :], keys * b[:, None], 0.0)
    inverse = tl.where(i[:, None] == j[None, :], 1.0, 0.0)
    for row in range(1, SIZE):
        here = (i == row)[:, None]
        factors = tl.sum(tl.where(here, keys, 0.0), 0)
        solved = tl.sum(tl.where(here, inverse, 0.0), 0) - tl.sum(factors[:, None] * inverse, 0)
        inverse = tl.where(here, solved[None, :], inverse)
    result = ((token * N + n) * SIZE)[:, None] + j[None, :]
    tl.store(replaced + result, inverse * b[None, :], mask=real[:, None])
    tl.store(scores + result, tl.where(later, 0.0, seen), mask=real[:, None])


@triton.jit
def carry(
    q, k, v, decay, replaced, scores, spans, state, out, last, q_token, q_head, k_token, k_head, v_token, v_head, share, scale,
    N: tl.constexpr, Q: tl.constexpr, V: tl.constexpr, CHANNELS: tl.constexpr, SIZE: tl.constexpr, HEAD: tl.constexpr,
    COLUMNS: tl.constexpr, OUT: tl.constexpr, EPS: tl.constexpr,
):  # fmt: skip
    sequence, n = tl.program_id(2), tl.program_id(1)
    first, count = tl.load(spans + sequence * 2), tl.load(spans + sequence * 2 + 1)
    i, d, e = tl.arange(0, SIZE), tl.arange(0, HEAD), tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    cells = ((sequence * N + n).to(tl.int64) * Q + d)[:, None] * V + e[None, :]
    held = (d < Q)[:, None] & (e < V)[None, :]
    S = tl.load(state + cells, mask=held, other=0.0).to(tl.float32)
    for start in range(0, count, SIZE):
        token, real = (first + start + i).to(tl.int64), start + i < count
        inside, head = real[:, None] & (d < Q)[None, :], n // share
        q_i = unit(q + (token * q_token + head * q_head)[:, None] + d[None, :], inside, EPS) * scale
        k_i = unit(k + (token * k_token + head * k_head)[:, None] + d[None, :], inside, EPS)
        value = tl.load(v + (token * v_token + n * v_head)[:, None] + e[None, :], mask=real[:, None] & (e < V)[None, :], other=0.0)
        if CHANNELS:
            kept = tl.load(decay + ((token * N + n) * Q)[:, None] + d[None, :], mask=inside, other=0.0).to(tl.float32)
            total, whole = tl.cumsum(kept, 0), tl.sum(kept, 0)[None, :]
            fade = tl.exp(tl.sum(kept, 0))[:, None]
        else:
            kept = tl.load(decay + token * N + n, mask=real, other=0.0).to(tl.float32)
            total, whole = tl.cumsum(kept, 0)[:, None], tl.sum(kept, 0)
            fade = tl.exp(whole)
        corner = ((token * N + n) * SIZE)[:, None] + i[None, :]
        change = value.to(tl.float32) - tl.dot(k_i * tl.exp(total), S, input_precision="bf16x6")
        change = tl.dot(tl.load(replaced + corner, mask=real[:, None], other=0.0), change, input_precision="bf16x6")
        o = tl.dot(q_i * tl.exp(total), S, input_precision=OUT)
        o = tl.dot(tl.load(scores + corner, mask=real[:, None], other=0.0), change, o, input_precision=OUT)
        result = out + ((token * N + n) * V)[:, None] + e[None, :]
        tl.store(result, o.to(out.dtype.element_ty), mask=real[:, None] & (e < V)[None, :])
        S = tl.dot(tl.trans(k_i * tl.exp(whole - total)), change, S * fade, input_precision="bf16x6")
    tl.store(last + cells, S, mask=held)


@triton.jit
def recur(
    q, k, v, decay, beta, state, out, last, q_token, q_head, k_token, k_head, v_token, v_head, share, scale, N: tl.constexpr,
    Q: tl.constexpr, V: tl.constexpr, CHANNELS: tl.constexpr, HEAD: tl.constexpr, COLUMNS: tl.constexpr, EPS: tl.constexpr,
):  # fmt: skip
    token, n = tl.program_id(2).to(tl.int64), tl.program_id(1)
    d, e = tl.arange(0, HEAD)[:, None], tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    cells, held = ((token * N + n) * Q + d) * V + e, (d < Q) & (e < V)
    q_i = tl.load(q + token * q_token + n // share * q_head + d, mask=d < Q, other=0.0).to(tl.float32)
    k_i = tl.load(k + token * k_token + n // share * k_head + d, mask=d < Q, other=0.0).to(tl.float32)
    q_i *= tl.rsqrt(tl.sum(q_i * q_i, 0, keep_dims=True) + EPS) * scale
    k_i *= tl.rsqrt(tl.sum(k_i * k_i, 0, keep_dims=True) + EPS)
    value = tl.load(v + token * v_token + n * v_head + e, mask=e < V, other=0.0).to(tl.float32)
    if CHANNELS:
        kept = tl.load(decay + (token * N + n) * Q + d, mask=d < Q, other=0.0).to(tl.float32)
    else:
        kept = tl.load(decay + token * N + n).to(tl.float32)
    S = tl.load(state + cells, mask=held, other=0.0).to(tl.float32) * tl.exp(kept)
    change = tl.load(beta + token * N + n).to(tl.float32) * (value - tl.sum(k_i * S, 0, keep_dims=True))
    S += k_i * change
    tl.store(out + (token * N + n) * V + e, tl.sum(q_i * S, 0, keep_dims=True).to(out.dtype.element_ty), mask=e < V)
    tl.store(last + cells, S, mask=held)


def launch(
    q_THQ: Any, k_THQ: Any, v_TNV: Any, decay_TNC: Any, beta_TN: Any, state_BNQV: Any, queries: tuple[int, ...]
) -> tuple[Any, Any]:
    (T, H, Q), (N, V), device = q_THQ.shape, v_TNV.shape[1:], q_THQ.device
    q, k, v = (x if x.stride(2) == 1 else x.contiguous() for x in (q_THQ, k_THQ, v_TNV))
    decay, beta, state = (x.contiguous() for x in (decay_TNC, beta_TN, state_BNQV))
    out = torch.empty(T, N, V, dtype=v.dtype, device=device)
    last = torch.empty(state.shape, dtype=torch.float32, device=device)
    blocks = tuned("delta_rule", device, queries=max(queries))
    sizes = {"N": N, "Q": Q, "CHANNELS": decay.shape[2] > 1, "HEAD": max(16, triton.next_power_of_2(Q)), "EPS": EPS}
    grid = triton.cdiv(V, blocks["COLUMNS"]), N, len(queries)
    reads, share, scale = (*q.stride()[:2], *k.stride()[:2]), N // H, Q**-0.5
    if max(queries) == 1:
        recur[grid](q, k, v, decay, beta, state, out, last, *reads, *v.stride()[:2], share, scale, V=V, **sizes, **blocks)
        return out, last
    tiles, out_precision = spans(queries, device, CHUNK), "bf16x6" if v.element_size() == 4 else "bf16x3"
    replaced, scores = (torch.empty(T, N, CHUNK, dtype=torch.float32, device=device) for _ in range(2))
    prepare[len(tiles), N](q, k, decay, beta, tiles, replaced, scores, *reads, share, scale, SIZE=CHUNK, OUT=out_precision, **sizes)
    carry[grid](
        q, k, v, decay, replaced, scores, spans(queries, device), state, out, last, *reads, *v.stride()[:2], share, scale, V=V,
        SIZE=CHUNK, OUT=out_precision, **sizes, **blocks,
    )  # fmt: skip
    return out, last


def refuses(site: Site, machine: Any) -> str | None:
    return unlaunchable(site, machine)


IMPL = Impl(op="delta_rule", provider="triton", fn=launch, refuses=refuses, status="compiled")
NARROW = dict.fromkeys(("sm_80", "sm_120"), "without wgmma the bfloat16 parts of float32 queries and keys are whole in every warp")
BUILDS = tuple(
    Build(sizes={"queries": (queries,), "H": heads, "N": 32, "Q": 128, "V": 128, "channels": channels}, explained=NARROW)
    for queries, heads, channels in ((1, 32, True), (2048, 32, True), (2048, 16, False))
)
