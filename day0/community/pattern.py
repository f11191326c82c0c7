"""What an error looks like: where it begins, which columns have it, and the one simple change that would explain it."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

EXPLAINED = 0.05  # share of an error that a pattern may leave over
PLAIN = 1e-3  # relative error below which rounding hides every pattern
MEMBERS = 8  # of a block, at the least
TENTH = 0.1  # of the worst: rows and columns below it are not part of the fault


def pattern(ours: Tensor, truth: Tensor) -> str:
    """"scaled by 1.05", "halves exchanged", … for float tensors [T, X] that differ; "" when nothing simple explains it."""
    error = ours - truth
    size, wrong = float(truth.norm()), float(error.norm())
    if not (math.isfinite(wrong) and wrong > PLAIN * size):
        return ""
    if not ours.any():
        return "zero throughout"
    if not truth.any():
        return "not zero, and should be"
    found = _scale(ours, truth, wrong) or _order(ours, truth, wrong) or _constant(error) or _blocks(ours, truth)
    return found or ("a part of the rows" if _part(error) else "")


def first(error_T: Tensor) -> int:
    """First row that is about as wrong as the worst one."""
    worst = float(error_T.max()) if len(error_T) else 0.0
    return int((error_T >= TENTH * worst).int().argmax()) if worst > 0 else 0


def columns(error_C: Tensor) -> tuple[int, int] | None:
    """First and last column that is about as wrong as the worst one; None when that is every one of them, or nearly."""
    worst = float(error_C.max()) if len(error_C) else 0.0
    if not worst > 0:
        return None
    places = (error_C >= TENTH * worst).nonzero().flatten()
    low, high = int(places[0]), int(places[-1])
    return (low, high) if high - low + 1 <= len(error_C) * 3 // 4 else None


def _scale(ours: Tensor, truth: Tensor, wrong: float) -> str:
    factor = float((ours * truth).sum() / truth.square().sum())
    return f"scaled by {factor:.4g}" if float((ours - factor * truth).norm()) <= EXPLAINED * wrong else ""


def _order(ours: Tensor, truth: Tensor, wrong: float) -> str:
    width = truth.shape[-1]
    turns: dict[str, Callable[[Tensor], Tensor]] = {}
    if width % 2 == 0:
        turns |= {
            "halves exchanged": lambda x: x.roll(width // 2, -1),
            "pairs exchanged": lambda x: x.unflatten(-1, (-1, 2)).flip(-1).flatten(-2),
            "halves instead of pairs": lambda x: x.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2),
            "pairs instead of halves": lambda x: x.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2),
        }
    if len(truth) == width:
        turns["transposed"] = lambda x: x.T
    turns["rows one later"] = lambda x: x.roll(1, 0)
    turns["rows one earlier"] = lambda x: x.roll(-1, 0)
    turns["in another order"] = lambda x: x
    for name, turn in turns.items():
        one, other = (ours.sort(-1).values, truth.sort(-1).values) if name == "in another order" else (ours, turn(truth))
        inner = slice(1, -1) if name.startswith("rows") and len(truth) > 3 else slice(None)
        if float((one[inner] - other[inner]).norm()) <= EXPLAINED * wrong:
            return name
    return ""


def _constant(error: Tensor) -> str:
    """The same vector is added to every row."""
    if len(error) < 4:
        return ""
    mean = error.mean(0, keepdim=True)
    return "the same vector added to every row" if float((error - mean).norm()) <= EXPLAINED * float(error.norm()) else ""


def _blocks(ours: Tensor, truth: Tensor) -> str:
    """A row has few factors, or few shifts: scales that were rounded, a zero point that is off."""
    there = truth.abs() > 1e-6 * truth.abs().max()
    factor = ours / truth.masked_fill(~there, 1)
    if _few(factor, there) and float(factor[there].min()) > 0:
        return f"each block scaled by its own factor, {float(factor[there].min()):.3g} to {float(factor[there].max()):.3g}"
    shift = ours - truth
    moved = shift.abs() > PLAIN * truth.abs().mean()
    if _few(shift, moved):
        return f"each block shifted by its own amount, {float(shift[moved].min()):.3g} to {float(shift[moved].max()):.3g}"
    return ""


def _few(values: Tensor, there: Tensor) -> bool:
    """Whether values that count come at least `MEMBERS` times in a row on average, and are not all the same."""
    if there.double().mean() < 0.5 or there.shape[-1] < MEMBERS:
        return False
    ordered = values.masked_fill(~there, torch.nan).sort(-1).values
    distinct = 1 + (ordered.diff(dim=-1) > PLAIN * ordered[..., :-1].abs()).sum(-1)
    spread = float(values[there].max() - values[there].min())
    return MEMBERS * int(distinct.sum()) <= int(there.sum()) and spread > PLAIN * float(values[there].abs().median())


def _part(error: Tensor) -> bool:
    """Whether most rows are right."""
    size_T = error.norm(dim=-1)
    return bool((size_T < TENTH * size_T.max()).float().mean() > 0.25)
