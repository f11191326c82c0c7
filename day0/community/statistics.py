"""How far tensors are from the truth, and the reference in their type beside them."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from day0.community import pattern
from day0.spec.evidence import Errors
from day0.spec.ops import ROUNDOFF, Budget

PIECE = 1 << 18  # elements that are held in float64 at a time
NARROW, CANCELLED = 8, 16.0  # rows of fewer elements may cancel by chance: they count as no smaller than the whole tensor by this factor


def compare(ours: Tensor, truth: Tensor, reference: Tensor | None, dtype: torch.dtype, null: Tensor | None = None) -> Errors:
    """Errors of `ours` [T, …], computed in `dtype`, against `truth`, next to those of `reference` (the reference in that type).

    `null`: the reference in that type after a harmless change.
    """
    if ours.shape != truth.shape:
        apart = f"another shape: {list(ours.shape)} instead of {list(truth.shape)}"
        return Errors(ours=math.inf, ratio=math.inf, row_ratio=math.inf, budget=Budget().relative(dtype_name(dtype)), pattern=apart)
    tally = Tally(dtype)
    tally.add(ours, truth, reference, null)
    return tally.errors()


def dtype_name(dtype: torch.dtype) -> str:
    """"bfloat16"."""
    return str(dtype).removeprefix("torch.")


class Tally:
    """Errors of a tensor that is seen piece by piece, each of some rows."""

    def __init__(self, dtype: torch.dtype, budget: float | None = None) -> None:
        """`budget`: error that rounding explains; by default that of one rounding to `dtype`."""
        self.dtype = dtype
        self._unit = ROUNDOFF[dtype_name(dtype)]
        self._budget = Budget().relative(dtype_name(dtype)) if budget is None else budget
        self._rows: list[tuple[Tensor, ...]] = []
        self._bias = [0.0, 0.0, 0.0]  # count, sum and sum of squares of signed relative errors
        self._elements = 0
        self._narrow = False
        self._columns: Tensor | None = None  # sums of squared errors
        self._pattern: str | None = None

    def add(self, ours: Tensor, truth: Tensor, reference: Tensor | None = None, null: Tensor | None = None) -> None:
        """Some more rows."""
        self._elements += truth.numel()
        self._narrow = truth[0].numel() < NARROW
        others = (truth if other is None else other for other in (reference, null))
        for ours_TX, truth_TX, reference_TX, null_TX in _pieces(ours, truth, *others):
            finite_T = (torch.isfinite(ours_TX) == torch.isfinite(truth_TX)).all(-1)
            for wide in (ours_TX, truth_TX, reference_TX, null_TX):
                wide.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
            squares_T = truth_TX.square().mean(-1)
            own_TX = ours_TX - truth_TX
            self._rows.append((
                own_TX.square().mean(-1), (reference_TX - truth_TX).square().mean(-1), squares_T, finite_T, ours_TX.square().mean(-1),
                (null_TX - truth_TX).square().mean(-1),
            ))  # fmt: skip
            self._look(ours_TX, truth_TX, own_TX)
            large = truth_TX.abs() > squares_T.sqrt()[:, None] / 4  # below, cancellation rules
            signed = own_TX[large] / (truth_TX[large] * self._unit)
            found = (signed.numel(), float(signed.sum()), float(signed.square().sum()))
            self._bias = [total + value for total, value in zip(self._bias, found, strict=True)]

    def _look(self, ours_TX: Tensor, truth_TX: Tensor, own_TX: Tensor) -> None:
        """Columns and pattern; pieces that look different have no pattern together."""
        found_X = own_TX.square().sum(0)
        self._columns = found_X if self._columns is None or len(self._columns) != len(found_X) else self._columns + found_X
        looks = pattern.pattern(ours_TX, truth_TX)
        self._pattern = looks if self._pattern in (None, looks) else ""

    def errors(self) -> Errors:
        """Of all rows."""
        own_T, other_T, truth_T, finite_T, ours_T, null_T = (torch.cat(column) for column in zip(*self._rows, strict=True))
        scale, own, other, null = (math.sqrt(float(squares_T.mean())) for squares_T in (truth_T, own_T, other_T, null_T))
        size_T = truth_T.sqrt().clamp(min=scale / CANCELLED if self._narrow else 0.0)
        usual_T = size_T * max(self._budget, _share(other, scale))
        ratio_T, null_T = (torch.where(x_T == 0, 0.0, x_T.sqrt() / torch.maximum(other_T.sqrt(), usual_T)) for x_T in (own_T, null_T))
        uneven_T = torch.where(other_T == 0, 0.0, other_T.sqrt() / usual_T)
        count, total, squares = self._bias
        mean = total / count if count else 0.0
        variance = max(squares / count - mean**2, 0.0) / (count - 1) if count > 1 else math.inf
        return Errors(
            ours=_share(own, scale), reference=_share(other, scale), budget=self._budget, elements=self._elements,
            ratio=_share(own, max(other, self._budget * scale)), null=_share(null, max(other, self._budget * scale)), finite=bool(finite_T.all()),
            null_row=float(null_T.max()), row_ratio=float(ratio_T.max()), row=int(ratio_T.argmax()), reference_row=float(uneven_T.max()),
            bias=mean, bias_error=math.sqrt(variance), norm=_share(math.sqrt(float(ours_T.mean())), scale), first=pattern.first(own_T.sqrt()),
            columns=None if self._columns is None else pattern.columns(self._columns.sqrt()), pattern=self._pattern or "",
        )  # fmt: skip


def _pieces(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Some rows of each at a time, in float64; copies."""
    count = max(1, PIECE // max(1, tensors[1][0].numel()))
    for start in range(0, len(tensors[1]), count):
        yield tuple(tensor[start : start + count].to(torch.float64, copy=True).flatten(1) for tensor in tensors)


def _share(part: float, whole: float) -> float:
    if part == 0:
        return 0.0
    return part / whole if whole else math.inf
