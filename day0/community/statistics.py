"""How far tensors are from the truth, and the reference in their type beside them."""

import math

import torch
from torch import Tensor

from day0.spec.evidence import Errors
from day0.spec.ops import ROUNDOFF, Budget


def compare(ours: Tensor, truth: Tensor, reference: Tensor | None, dtype: torch.dtype, budget: float | None = None) -> Errors:
    """Errors of `ours` [T, …], computed in `dtype`, against `truth`, next to those of `reference` (the reference in that type).

    Without a `budget` it is that of one rounding to `dtype`.
    """
    name = dtype_name(dtype)
    budget = Budget().relative(name) if budget is None else budget
    wide = [t.detach().to(torch.float64).flatten(1) for t in (ours, truth, truth if reference is None else reference)]
    finite = bool(torch.equal(torch.isfinite(wide[0]), torch.isfinite(wide[1])))
    ours_TX, truth_TX, reference_TX = (torch.nan_to_num(t, nan=0.0, posinf=0.0, neginf=0.0) for t in wide)
    scale = _rms(truth_TX)
    own, other = _rms(ours_TX - truth_TX), _rms(reference_TX - truth_TX)
    ratio_T, uneven_T = _row_ratios(ours_TX - truth_TX, reference_TX - truth_TX, truth_TX, budget)
    return Errors(
        ours=_share(own, scale), reference=_share(other, scale), budget=budget, finite=finite,
        ratio=_share(own, max(other, budget * scale)), row_ratio=float(ratio_T.max()), row=int(ratio_T.argmax()),
        reference_row=float(uneven_T.max()), elements=truth_TX.numel(), **_bias(ours_TX, truth_TX, ROUNDOFF[name]),
    )  # fmt: skip


def dtype_name(dtype: torch.dtype) -> str:
    """"bfloat16"."""
    return str(dtype).removeprefix("torch.")


def _row_ratios(own_TX: Tensor, other_TX: Tensor, truth_TX: Tensor, budget: float) -> tuple[Tensor, Tensor]:
    """Errors of rows: ours to the reference's, which counts at least as much as in the whole tensor; the reference's to its usual."""
    usual = max(budget, _share(_rms(other_TX), _rms(truth_TX)))
    floor_T = truth_TX.pow(2).mean(-1).sqrt() * usual
    other_T = other_TX.pow(2).mean(-1).sqrt()
    own_T = own_TX.pow(2).mean(-1).sqrt()
    ratio_T = own_T / torch.maximum(other_T, floor_T)
    return torch.where(own_T == 0, 0.0, ratio_T), torch.where(other_T == 0, 0.0, other_T / floor_T)


def _bias(ours_TX: Tensor, truth_TX: Tensor, unit: float) -> dict[str, float]:
    """Mean error in the direction of the truth, in unit roundoffs, and the standard error of that mean.

    Small values, where cancellation rules, are left out.
    """
    magnitude = truth_TX.abs()
    kept = magnitude > magnitude.pow(2).mean().sqrt() / 4
    if kept.sum() < 2:
        return {}
    error_X = ((ours_TX - truth_TX) * truth_TX.sign() / (magnitude * unit))[kept]
    return {"bias": float(error_X.mean()), "bias_error": float(error_X.std() / len(error_X) ** 0.5)}


def _rms(t: Tensor) -> float:
    return float(t.pow(2).mean().sqrt()) if t.numel() else 0.0


def _share(part: float, whole: float) -> float:
    if part == 0:
        return 0.0
    return part / whole if whole else math.inf
