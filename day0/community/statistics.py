"""How far tensors are from the truth, and the reference in their type beside them."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from day0.spec.evidence import Errors
from day0.spec.ops import ROUNDOFF, Budget

PIECE = 1 << 20  # elements that are held in float64 at a time


def compare(ours: Tensor, truth: Tensor, reference: Tensor | None, dtype: torch.dtype, budget: float | None = None) -> Errors:
    """Errors of `ours` [T, …], computed in `dtype`, against `truth`, next to those of `reference` (the reference in that type).

    Without a `budget` it is that of one rounding to `dtype`.
    """
    budget = Budget().relative(dtype_name(dtype)) if budget is None else budget
    rows = [_squares(*piece) for piece in _pieces(ours, truth, reference)]
    own_T, other_T, truth_T, finite_T = (torch.cat(column) for column in zip(*rows, strict=True))
    scale, own, other = (math.sqrt(float(squares_T.mean())) for squares_T in (truth_T, own_T, other_T))
    usual = max(budget, _share(other, scale))
    ratio_T, uneven_T = _row_ratios(own_T.sqrt(), other_T.sqrt(), truth_T.sqrt() * usual)
    return Errors(
        ours=_share(own, scale), reference=_share(other, scale), budget=budget, finite=bool(finite_T.all()),
        ratio=_share(own, max(other, budget * scale)), row_ratio=float(ratio_T.max()), row=int(ratio_T.argmax()),
        reference_row=float(uneven_T.max()), elements=truth.numel(), **_bias(ours, truth, scale, ROUNDOFF[dtype_name(dtype)]),
    )  # fmt: skip


def dtype_name(dtype: torch.dtype) -> str:
    """"bfloat16"."""
    return str(dtype).removeprefix("torch.")


def _pieces(ours: Tensor, truth: Tensor, reference: Tensor | None = None) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Some rows of each at a time, in float64."""
    count = max(1, PIECE // max(1, truth[0].numel()))
    for start in range(0, len(truth), count):
        mine, right = (t[start : start + count].to(torch.float64).flatten(1) for t in (ours, truth))
        yield mine, right, right if reference is None else reference[start : start + count].to(torch.float64).flatten(1)


def _squares(ours_TX: Tensor, truth_TX: Tensor, reference_TX: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Mean squares of each row (our error, the reference's, the truth), and whether both are finite at the same places."""
    finite_T = (torch.isfinite(ours_TX) == torch.isfinite(truth_TX)).all(-1)
    kept = [torch.nan_to_num(t, nan=0.0, posinf=0.0, neginf=0.0) for t in (ours_TX, truth_TX, reference_TX)]
    own_T, other_T = ((t - kept[1]).square().mean(-1) for t in (kept[0], kept[2]))
    return own_T, other_T, kept[1].square().mean(-1), finite_T


def _row_ratios(own_T: Tensor, other_T: Tensor, usual_T: Tensor) -> tuple[Tensor, Tensor]:
    """Our error of each row to the reference's, which counts at least as much as is usual; and the reference's to what is usual."""
    ratio_T = torch.where(own_T == 0, 0.0, own_T / torch.maximum(other_T, usual_T))
    return ratio_T, torch.where(other_T == 0, 0.0, other_T / usual_T)


def _bias(ours: Tensor, truth: Tensor, scale: float, unit: float) -> dict[str, float]:
    """Mean error in the direction of the truth, in unit roundoffs, and the standard error of that mean.

    Small values, where cancellation rules, are left out.
    """
    count, total, squares = 0, 0.0, 0.0
    for ours_TX, truth_TX, _ in _pieces(ours, truth):
        error_TX = (ours_TX - truth_TX) / (truth_TX * unit)
        kept = error_TX[(truth_TX.abs() > scale / 4) & torch.isfinite(error_TX)]
        count, total, squares = count + len(kept), total + float(kept.sum()), squares + float(kept.square().sum())
    if count < 2:
        return {}
    mean = total / count
    return {"bias": mean, "bias_error": math.sqrt(max(squares / count - mean**2, 0.0) / (count - 1))}


def _share(part: float, whole: float) -> float:
    if part == 0:
        return 0.0
    return part / whole if whole else math.inf
