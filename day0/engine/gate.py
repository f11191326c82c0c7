"""Whether an implementation of an operator is right: its results against the reference in float64 on the same numbers."""

from collections.abc import Sequence

import torch
from torch import Tensor

from day0.spec.ops import Budget, Op

# A budget is the error that is expected of a right implementation, as a root mean square. On the cases of their operators the references
# and torch's kernels have at most 1.8 of it over a whole result (of one element) and 2.1 in the worst row; a factor of 1.05 has 12 of it in
# bfloat16 in the operator with the largest budget, and more in wider types.
WHOLE, ROW = 3.0, 6.0


def judge(op: Op, found: Sequence[Tensor], truth: Sequence[Tensor]) -> str | None:
    """What is wrong with results; None when nothing is."""
    for name, result, right in zip(op.outputs, found, truth, strict=True):
        if result.shape != right.shape:
            return f"{name}: shape {list(result.shape)}, not {list(right.shape)}"
        if op.budget.exact or not right.is_floating_point():
            if not torch.equal(result.to(right.dtype), right):
                return f"{name}: not equal"
            continue
        whole, row = ratios(result, right, op.budget)
        if not (whole <= WHOLE and row <= ROW):
            return f"{name}: {whole:.2f} of the budget, {row:.2f} in the worst row"
    return None


def mistyped(op: Op, found: Sequence[Tensor], meant: Sequence[Tensor]) -> str | None:
    """Which result has another number type than the reference gives for the same arguments; None when none has."""
    for name, result, right in zip(op.outputs, found, meant, strict=True):
        if result.dtype != right.dtype:
            return f"{name}: {str(result.dtype).removeprefix('torch.')}, not {str(right.dtype).removeprefix('torch.')}"
    return None


def ratios(result: Tensor, right: Tensor, budget: Budget) -> tuple[float, float]:
    """Error of the result and of its worst row, in units of the budget. A row of unusual size is compared with itself."""
    known = right.isfinite()
    if not torch.equal(result[~known].double(), right[~known]):
        return float("inf"), float("inf")
    error, truth = (result.double() - right).masked_fill(~known, 0).flatten(1), right.masked_fill(~known, 0).flatten(1)
    scale = truth.square().mean().sqrt()
    rows = error.square().mean(-1).sqrt() / truth.square().mean(-1).sqrt().clamp(min=scale)
    allowed = budget.relative(str(result.dtype).removeprefix("torch."))
    return (error.square().mean().sqrt() / scale).item() / allowed, rows.max().item() / allowed
