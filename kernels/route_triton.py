"""The choice of experts in Triton: a program scores, limits groups, takes the best k one after the other, and weighs them, for some tokens.

Experts lie as [groups, experts of a group], each padded to a power of two; the order of places is that of experts, so that the first of equal
scores is the one with the lower index.
"""

from __future__ import annotations

from typing import Any

from day0.kernels.tiles.softplus import softplus
from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import tl, torch, triton
from day0.spec.ops import Impl, Site
from day0.spec.tuning import warps

MOST, TILE = 4096, 1024  # places of the experts of one token, and of a program with several tokens


@triton.jit
def score_of(x, SCORE: tl.constexpr):
    return tl.sigmoid(x) if SCORE == "sigmoid" else tl.sqrt(softplus(x))


@triton.jit
def best(x, place):
    """The largest of each row of a tile and its place, the first of several."""
    found, at = tl.max(x, axis=1, keep_dims=True, return_indices=True, return_indices_tie_break_left=True)
    return found, at, place == at


@triton.jit
def group_limited(choice, TOP: tl.constexpr, ROWS: tl.constexpr, GROUPS: tl.constexpr, EACH: tl.constexpr):
    """Minus infinity outside the groups whose two best scores have the largest sums."""
    lowest = float("-inf")
    tile = tl.reshape(choice, (ROWS * GROUPS, EACH))
    first, _, is_first = best(tile, tl.arange(0, EACH)[None, :])
    second = tl.max(tl.where(is_first, lowest, tile), axis=1, keep_dims=True) if EACH > 1 else tl.zeros_like(first)
    sums = tl.reshape(first + second, (ROWS, GROUPS))
    group = tl.arange(0, GROUPS)[None, :]
    kept = tl.zeros((ROWS, GROUPS), dtype=tl.int32)
    for _ in range(TOP):
        _, _, taken = best(sums, group)
        kept = tl.where(taken, 1, kept)
        sums = tl.where(taken, lowest, sums)
    allowed = tl.broadcast_to(tl.reshape(kept, (ROWS, GROUPS, 1)), (ROWS, GROUPS, EACH))
    return tl.where(tl.reshape(allowed, (ROWS, GROUPS * EACH)) > 0, choice, lowest)


@triton.jit
def choose(
    logits, bias, weights, experts, T, E, K, stride, epsilon, scale, SCORE: tl.constexpr, FIRST: tl.constexpr,
    RENORMALISE: tl.constexpr, TOP_GROUPS: tl.constexpr, ROWS: tl.constexpr, GROUPS: tl.constexpr, REAL: tl.constexpr, EACH: tl.constexpr,
    CHOSEN: tl.constexpr,
):  # fmt: skip
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)[:, None]
    place, k = tl.arange(0, GROUPS * EACH)[None, :], tl.arange(0, CHOSEN)[None, :]
    size = E // REAL  # experts of a group
    expert = place // EACH * size + place % EACH
    inside = (row < T) & (place % EACH < size) & (expert < E)
    logit = tl.load(logits + row * stride + expert, mask=inside, other=float("-inf")).to(tl.float32)
    if SCORE == "softmax":
        top = tl.max(logit, axis=1, keep_dims=True)
        total = tl.sum(tl.where(inside, tl.exp(logit - top), 0), axis=1, keep_dims=True)
    found = tl.full((ROWS, CHOSEN), float("-inf"), dtype=tl.float32)
    choice = logit
    if not FIRST:
        choice = tl.exp(logit - top) / total if SCORE == "softmax" else score_of(logit, SCORE)
    if bias is not None:
        choice += tl.load(bias + expert, mask=inside, other=0).to(tl.float32)
    choice = tl.where(inside, choice, float("-inf"))
    if GROUPS > 1:
        choice = group_limited(choice, TOP_GROUPS, ROWS, GROUPS, EACH)
    index = tl.zeros((ROWS, CHOSEN), dtype=tl.int32)
    for i in range(K):
        _, at, taken = best(choice, place)
        index = tl.where(k == i, at // EACH * size + at % EACH, index)
        found = tl.where(k == i, tl.sum(tl.where(taken, logit, 0), axis=1, keep_dims=True), found)
        choice = tl.where(taken, float("-inf"), choice)
    tl.store(experts + row * K + k, tl.minimum(index, E - 1).to(tl.int64), mask=(row < T) & (k < K))
    if SCORE == "softmax":
        if FIRST:
            top = tl.max(found, axis=1, keep_dims=True)
            total = tl.sum(tl.exp(found - top), axis=1, keep_dims=True)
        weight = tl.exp(found - top) / total
    else:
        weight = score_of(found, SCORE)
    if RENORMALISE:
        weight /= tl.sum(tl.where(k < K, weight, 0), axis=1, keep_dims=True) + epsilon
    tl.store(weights + row * K + k, weight * scale, mask=(row < T) & (k < K))


def launch(logits_TE: Any, top_k: int, rule: Any, bias_E: Any = None, given_TK: Any = None) -> Any:
    logits = logits_TE if logits_TE.stride(-1) == 1 else logits_TE.contiguous()
    (T, E), K = logits.shape, top_k
    weights_TK = torch.empty((T, K), dtype=torch.float32, device=logits.device)
    experts_TK = torch.empty((T, K), dtype=torch.int64, device=logits.device)
    groups, each = padded(E, rule.groups)
    rows = max(1, TILE // (groups * each))
    choose[(triton.cdiv(T, rows),)](
        logits, bias_E, weights_TK, experts_TK, T, E, K, logits.stride(0), rule.epsilon, rule.scale, SCORE=rule.score,
        FIRST=rule.choice_first, RENORMALISE=rule.renormalise, TOP_GROUPS=rule.top_groups, ROWS=rows, GROUPS=groups, REAL=rule.groups, EACH=each,
        CHOSEN=triton.next_power_of_2(K), num_warps=warps(rows * groups * each),
    )  # fmt: skip
    return weights_TK, experts_TK


def padded(experts: int, groups: int) -> tuple[int, int]:
    """Groups, and places in one."""
    return 1 << (groups - 1).bit_length(), 1 << (experts // groups - 1).bit_length()


def refuses(site: Site, machine: Any) -> str | None:
    reason, rule = unlaunchable(site, machine), site.options["rule"]
    if reason is not None:
        return reason
    if rule.table:
        return "weighs no choice that a table made"
    groups, each = padded(site.E, rule.groups)
    if groups * each > MOST:
        return f"{site.E} experts are more than fit one program ({MOST})"
    if rule.groups > 1 and rule.top_groups * (site.E // rule.groups) < site.K:
        return f"{rule.top_groups} of {rule.groups} groups hold fewer than {site.K} experts"
    return None


IMPL = Impl(op="route", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = (
    Build(sizes={"T": 64, "E": 256, "K": 8, "score": "sigmoid", "groups": 8}, dtype="float32"),
    Build(sizes={"T": 4096, "E": 128, "K": 8, "score": "softmax"}, dtype="float32"),
)  # fmt: skip
