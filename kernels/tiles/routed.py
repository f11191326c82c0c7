"""Products of routed experts: each program serves one expert and some of its tokens, in the order that `sort_choices` finds.

A choice is one of the K experts of one token. Expert, first and end place of a block's choices are columns of `table` [3, BLOCKS].
"""

from __future__ import annotations

from day0.kernels.tiles.activated import activated, gated
from day0.kernels.tiles.tile import accumulate, finish, of_expert
from day0.spec.lazy import tl, triton


@triton.jit
def sort_choices(
    experts, order, cursor, table, CHOICES, E, BLOCKS, BINS: tl.constexpr, BLOCK_T: tl.constexpr, CHUNK: tl.constexpr, SPAN: tl.constexpr
):  # fmt: skip
    """Numbers of choices by expert, in any order within one, and blocks of at most BLOCK_T of them; expert -1 where no block is left.

    One program. Choices of experts from E on are left out.
    """
    e = tl.arange(0, BINS)
    counts = tl.zeros((BINS,), tl.int32)
    for start in range(0, CHOICES, CHUNK):
        at = start + tl.arange(0, CHUNK)
        chosen = tl.load(experts + at, mask=at < CHOICES, other=E).to(tl.int32)
        counts += tl.histogram(tl.minimum(chosen, BINS - 1), BINS, mask=chosen < E)
    starts = tl.cumsum(counts, 0) - counts
    tl.store(cursor + e, starts, mask=e < E)
    blocks = (counts + BLOCK_T - 1) // BLOCK_T
    ends = tl.cumsum(blocks, 0)
    for start in range(0, BLOCKS, SPAN):
        block = start + tl.arange(0, SPAN)
        owner = tl.sum((ends[None, :] <= block[:, None]).to(tl.int32), 1)
        mine = owner[:, None] == e[None, :]
        first = tl.sum(tl.where(mine, (starts - (ends - blocks) * BLOCK_T)[None, :], 0), 1) + block * BLOCK_T
        end = tl.sum(tl.where(mine, (starts + counts)[None, :], 0), 1)
        tl.store(table + block, tl.where(owner < E, owner, -1), mask=block < BLOCKS)
        tl.store(table + BLOCKS + block, first, mask=block < BLOCKS)
        tl.store(table + 2 * BLOCKS + block, end, mask=block < BLOCKS)
    tl.debug_barrier()
    for start in range(0, CHOICES, CHUNK):
        at = start + tl.arange(0, CHUNK)
        chosen = tl.load(experts + at, mask=at < CHOICES, other=E).to(tl.int32)
        place = tl.atomic_add(cursor + chosen, 1, mask=chosen < E)
        tl.store(order + place, at, mask=chosen < E)


@triton.jit
def raise_tokens(
    x, hidden, weights, order, table, BLOCKS, K, F, D, x_t, gate, gate_lie, gate_bias, up, up_lie, up_bias,
    MEANING: tl.constexpr, CHOSEN: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_O: tl.constexpr,
    BLOCK_I: tl.constexpr,
):  # fmt: skip
    """hidden [choices in order, F]: what experts make of their tokens before their last product. `weights`: of choices, to scale inputs."""
    e = tl.load(table + tl.program_id(1)).to(tl.int64)
    if e < 0:
        return
    at = tl.load(table + BLOCKS + tl.program_id(1)) + tl.arange(0, BLOCK_T)
    known = at < tl.load(table + 2 * BLOCKS + tl.program_id(1))
    choice = tl.load(order + at, mask=known, other=0)
    rows = x + (choice // K).to(tl.int64)[:, None] * x_t
    first_f = tl.program_id(0) * BLOCK_O
    own_up = of_expert(up, up_lie, e)
    ups = tl.zeros((BLOCK_T, BLOCK_O), tl.float32)
    if gate is not None:
        own_gate = of_expert(gate, gate_lie, e)
        gates = tl.zeros((BLOCK_T, BLOCK_O), tl.float32)
    for first_i in range(0, D, BLOCK_I):
        i = first_i + tl.arange(0, BLOCK_I)
        x_tile = tl.load(rows + i[None, :], mask=known[:, None] & (i < D)[None, :], other=0)
        ups = accumulate(ups, x_tile, own_up, up_lie, first_f, F, first_i, D, MEANING, BLOCK_O, BLOCK_I)
        if gate is not None:
            gates = accumulate(gates, x_tile, own_gate, gate_lie, first_f, F, first_i, D, MEANING, BLOCK_O, BLOCK_I)
    if weights is not None:
        ups *= tl.load(weights + choice, mask=known, other=0).to(tl.float32)[:, None]
    if up_bias is not None:
        up_bias += e * F
    ups = finish(ups, own_up, up_lie, up_bias, first_f, F, MEANING, BLOCK_O)
    if gate is not None:
        if weights is not None:
            gates *= tl.load(weights + choice, mask=known, other=0).to(tl.float32)[:, None]
        if gate_bias is not None:
            gate_bias += e * F
        value = gated(finish(gates, own_gate, gate_lie, gate_bias, first_f, F, MEANING, BLOCK_O), ups, CHOSEN)
    else:
        value = activated(ups, CHOSEN)
    f = first_f + tl.arange(0, BLOCK_O)
    place = hidden + at.to(tl.int64)[:, None] * F + f[None, :]
    tl.store(place, value.to(hidden.dtype.element_ty), mask=known[:, None] & (f < F)[None, :])


@triton.jit
def lower_tokens(
    hidden, y, order, table, BLOCKS, D, F, first_d, end_d, down, down_lie, down_bias, MEANING: tl.constexpr,
    BLOCK_T: tl.constexpr, BLOCK_O: tl.constexpr, BLOCK_I: tl.constexpr,
):  # fmt: skip
    """y [choices, end_d - first_d]: some columns of what experts give."""
    e = tl.load(table + tl.program_id(1)).to(tl.int64)
    if e < 0:
        return
    at = tl.load(table + BLOCKS + tl.program_id(1)) + tl.arange(0, BLOCK_T)
    known = at < tl.load(table + 2 * BLOCKS + tl.program_id(1))
    rows = hidden + at.to(tl.int64)[:, None] * F
    first_o = first_d + tl.program_id(0) * BLOCK_O
    own = of_expert(down, down_lie, e)
    sums = tl.zeros((BLOCK_T, BLOCK_O), tl.float32)
    for first_i in range(0, F, BLOCK_I):
        i = first_i + tl.arange(0, BLOCK_I)
        x_tile = tl.load(rows + i[None, :], mask=known[:, None] & (i < F)[None, :], other=0)
        sums = accumulate(sums, x_tile, own, down_lie, first_o, end_d, first_i, F, MEANING, BLOCK_O, BLOCK_I)
    if down_bias is not None:
        down_bias += e * D
    sums = finish(sums, own, down_lie, down_bias, first_o, end_d, MEANING, BLOCK_O)
    d = first_o + tl.arange(0, BLOCK_O)
    choice = tl.load(order + at, mask=known, other=0).to(tl.int64)
    place = y + choice[:, None] * (end_d - first_d) + (d - first_d)[None, :]
    tl.store(place, sums.to(y.dtype.element_ty), mask=known[:, None] & (d < end_d)[None, :])


@triton.jit
def weigh(
    y, x, out, weights, experts, T, K, D, E, first_d, end_d, x_t, WEIGHED: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr
):  # fmt: skip
    """Columns of out [T, D]: the weighed sum of what a token's experts gave; those from E on gave the token itself."""
    t = (tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)).to(tl.int64)[:, None]
    d = first_d + tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)[None, :]
    inside = (t < T) & (d < end_d)
    total = tl.zeros((BLOCK_T, BLOCK_D), tl.float32)
    for k in range(K):
        routed = tl.load(experts + t * K + k, mask=t < T, other=0) < E
        weight = tl.load(weights + t * K + k, mask=t < T, other=0).to(tl.float32)
        given = tl.load(y + (t * K + k) * (end_d - first_d) + (d - first_d), mask=inside & routed, other=0).to(tl.float32)
        own = tl.load(x + t * x_t + d, mask=inside & ~routed, other=0).to(tl.float32)
        total += (given + own) * weight if WEIGHED else given + own * weight
    tl.store(out + t * D + d, total.to(out.dtype.element_ty), mask=inside)
