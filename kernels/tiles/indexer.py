"""What an indexer's heads give keys: the weighed sum of their products that are above zero."""

from __future__ import annotations

from day0.spec.lazy import tl, triton


@triton.jit
def scored(
    q, weights, key, token, q_token, q_head, scale, H: tl.constexpr, Q: tl.constexpr, HEADS: tl.constexpr, KEYS: tl.constexpr,
    HEAD: tl.constexpr,
):  # fmt: skip
    """[KEYS] of one token; `key` is [HEAD, KEYS], and `scale` multiplies each product. The token's heads are the rows of a matrix product."""
    d = tl.arange(0, HEAD)
    scores = tl.zeros([KEYS], tl.float32)
    for start in range(0, H, HEADS):
        h = start + tl.arange(0, HEADS)
        query = q + token * q_token + (h * q_head)[:, None] + d[None, :]
        query = tl.load(query, mask=(h < H)[:, None] & (d < Q)[None, :], other=0.0)
        weight = tl.load(weights + token * H + h, mask=h < H, other=0.0).to(tl.float32)
        dots = tl.maximum(tl.dot(query, key, input_precision="bf16x6"), 0.0) * scale
        scores += tl.sum(dots * weight[:, None], 0)
    return scores
