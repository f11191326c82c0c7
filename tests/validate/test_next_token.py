"""The best next token: near ties may fall either way in 16 bits; where the reference is sure it is the same."""

import torch
from torch import Tensor

from day0.checks.d0803_next_token import CHECK
from day0.community.compare_model import Logits

TOKENS, WORDS, NOISE = 64, 500, 0.01


def noise(seed: int) -> Tensor:
    return NOISE * torch.randn(TOKENS, WORDS, generator=torch.Generator().manual_seed(seed))


def tied() -> Tensor:
    """Two words of each token lead by far, and one of them by half of the noise."""
    right = noise(0)
    right[:, 7], right[:, 9] = 5.0, 5.0 - NOISE / 2
    return right


def judged(ours: Tensor, right: Tensor, peer: Tensor | None) -> tuple[float, int, bool]:
    """(share of tokens with the same best, those astray, whether it passes), a few tokens at a time."""
    logits = Logits(torch.float32 if peer is None else torch.bfloat16)
    for start in range(0, TOKENS, 16):
        rows = slice(start, start + 16)
        logits.add(ours[rows], right[rows], None if peer is None else peer[rows])
    found = logits.evidence(forced=True)
    return found.top1, found.astray, not list(CHECK.run(found))


def test_ties_within_the_references_rounding_are_not_held_against_us() -> None:
    """Though the reference in our type happens to keep all of them."""
    right, peer = tied(), tied() + noise(2)
    peer[:, 7] += 5 * NOISE
    top1, astray, passes = judged(tied() + noise(1), right, peer)
    assert top1 < 0.9 and astray == 0 and passes


def test_where_the_reference_is_sure_another_word_is_wrong() -> None:
    right = tied()
    ours = right.clone()
    ours[:4, 7] = ours[:4, 9] = 4.0
    ours[:4, 11] = 4.5
    assert judged(ours, right, right + noise(2)) == (1 - 4 / TOKENS, 4, False)
    ours[1:] = right[1:]
    assert judged(ours, right, right + noise(2)) == (1 - 1 / TOKENS, 1, True)


def test_in_float32_all_but_exact_ties_count() -> None:
    right = tied()
    assert judged(right.roll(2, 1), right, None) == (0, TOKENS, False)
    right[:, 9] = right[:, 7]
    ours = right.clone()
    ours[:, 9] += 1e-6
    top1, astray, passes = judged(ours, right, None)
    assert top1 < 1 and astray == 0 and passes
