"""Two ranks that share every layer, simulated operator by operator: they give what one card gives, unless a norm is not taken over both."""

from typing import Any

import pytest
import torch

pytest.importorskip("transformers")

from day0.engine.bind import Function
from day0.engine.release import Release
from tests.mutation.fault import call
from tests.mutation.nulls import split
from tests.validate.planted import validate
from tests.zoo import checkpoint

FLOAT32 = dict(only=["layers"], dtype="float32")


def attention(function: Function) -> Function:
    """Each rank has half of the heads, and the keys and values that they read."""

    def halves(q_THQ: torch.Tensor, k_pages: torch.Tensor, v_pages: torch.Tensor, *rest: Any, **named: Any) -> torch.Tensor:
        ranks = zip(q_THQ.chunk(2, 1), k_pages.chunk(2, 2), v_pages.chunk(2, 2), strict=True)
        return torch.cat([function(*(part.contiguous() for part in own), *rest, **named) for own in ranks], dim=1)

    return halves


def experts(function: Function) -> Function:
    """Each rank adds what its own experts say; all experts are weighed."""

    def halves(x: Any, weights: Any, chosen: Any, *rest: Any, **named: Any) -> Any:
        ranks = ((chosen < 4), (chosen >= 4))
        return sum(function(x, weights * own, chosen, *rest, **named) for own in ranks)

    return halves


def norm(width: int, reduced: bool) -> Any:
    """Of vectors of `width`, of which each rank has half: by the mean square of both, or by its own alone."""

    def change(function: Function) -> Function:
        def halves(x: torch.Tensor, weight: Any, eps: float, *rest: Any) -> torch.Tensor:
            if x.shape[-1] != width:
                return function(x, weight, eps, *rest)
            squares = [part.float().square().mean(-1, keepdim=True) for part in x.chunk(2, -1)]
            squares = [sum(squares) / 2] * 2 if reduced else squares
            parts = zip(x.chunk(2, -1), weight.chunk(2, -1), squares, strict=True)
            return torch.cat([(part.float() * torch.rsqrt(own + eps) * scale).to(x.dtype) for part, scale, own in parts], dim=-1)

        return halves

    return change


@pytest.mark.parametrize("reduced", [True, False])
def test_two_ranks_norm_queries_over_both(monkeypatch: pytest.MonkeyPatch, reduced: bool) -> None:
    """vllm #35932, mlx-lm #898: a norm as wide as all heads needs the other rank's squares; right on one card, wrong on two."""
    model = Release.open(checkpoint("minimax_m2")).model
    mixer = model.layers[0].mixer
    assert mixer.qk_norm_scope == "vector" and mixer.heads % 2 == mixer.kv_heads % 2 == 0 and mixer.widths["q"] != model.hidden
    for op, change in (("paged_attention", attention), ("experts", experts), ("linear", split(2)), ("rms_norm", norm(mixer.widths["q"], reduced))):
        call(op, change)(monkeypatch)
    report = validate(monkeypatch, checkpoint("minimax_m2"), layers="0", **FLOAT32)
    first = report.first_divergence
    assert (first is None) == reduced
    if first is not None:
        assert (first.part, first.operator, first.weights) == ("mixer", "rms_norm", "q_norm")
