"""Rows of a large table for the n-grams that end at each token, found by hashing token ids (Qwen's experimental models).

Heads are split among the orders 2 … J. The hash of order n is the exclusive or of token · multiplier over the last n tokens, in 64-bit
integers that wrap; its remainder by the head's size, plus the head's offset, is a row. What lies before a text's end counts as that end.
"""

from typing import Any

from day0.spec.cases import Draw, cases
from day0.spec.lazy import torch
from day0.spec.ops import Budget, Cost, Op, Site


def ngram_embedding(
    tokens_T: "torch.Tensor", context_BC: "torch.Tensor", table_PWD: "torch.Tensor", multipliers_J: "torch.Tensor", sizes_H: "torch.Tensor",
    offsets_H: "torch.Tensor", end: int, queries: tuple[int, ...],
) -> "tuple[torch.Tensor, torch.Tensor]":  # fmt: skip
    """→ ([T, H, D], the new `context_BC`): `context_BC` are the J - 1 tokens before each sequence's new ones, plus one; 0 is none.

    `table_PWD` are the rows in P parts, `end` is the token that ends a text, `queries` are the new tokens of each sequence.
    """
    rows, contexts = [], []
    for new_T, before_C in zip(tokens_T.split(queries), context_BC, strict=True):
        history = torch.cat((torch.where(before_C > 0, before_C - 1, end), new_T))
        rows.append(hashed(history, multipliers_J, sizes_H, end) + offsets_H)
        contexts.append(torch.cat((before_C, new_T + 1))[len(new_T) :])
    return table_PWD.flatten(0, 1)[torch.cat(rows)], torch.stack(contexts)


def hashed(history_S: "torch.Tensor", multipliers_J: "torch.Tensor", sizes_H: "torch.Tensor", end: int) -> "torch.Tensor":
    """→ [T, H] remainders for all but the first J - 1 tokens of the history."""
    J = len(multipliers_J)
    count = len(history_S) - J + 1
    mixed_T = history_S[J - 1 :] * multipliers_J[0]
    inside_T = torch.ones(count, dtype=torch.bool, device=history_S.device)
    found = []
    for back, sizes in zip(range(1, J), sizes_H.chunk(J - 1), strict=True):
        token_T = history_S[J - 1 - back : J - 1 - back + count]
        inside_T = inside_T & (token_T != end)
        mixed_T = mixed_T ^ (torch.where(inside_T, token_T, end) * multipliers_J[back])
        found.append(mixed_T[:, None].remainder(sizes))
    return torch.cat(found, dim=-1)


def make(draw: Draw, queries: tuple[int, ...], J: int, D: int) -> dict[str, Any]:
    H = 2 * (J - 1)
    sizes_H = torch.tensor([53, 59, 61, 67, 71, 73][:H])
    offsets_H = sizes_H.cumsum(0) - sizes_H
    return {
        "tokens_T": draw.integers(9, sum(queries)), "context_BC": draw.integers(10, len(queries), J - 1),
        "table_PWD": draw.normal(2, 200, D), "multipliers_J": draw.integers(1 << 61, J) * 2 + 1, "sizes_H": sizes_H, "offsets_H": offsets_H,
        "end": 3, "queries": queries,
    }  # fmt: skip


def cost(site: Site) -> Cost:
    return Cost(flops=0, bytes=4 * site.T * site.H * site.D)


OP = Op(
    name="ngram_embedding", reference=ngram_embedding, layer="domain", budget=Budget(exact=True), cost=cost,
    inputs={"tokens": "T", "context": "BC", "table": "PWD", "multipliers": "J", "sizes": "H", "offsets": "H"},
    outputs={"rows": "THD", "context": "BC"}, cases=cases(make, queries=((1,), (1, 1, 1), (2, 63, 1)), J=(3, 4), D=(12, 60)),
)  # fmt: skip
