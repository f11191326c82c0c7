"""Learned vectors of a square grid at the places of another one: separable interpolation (bilinear; bicubic of Keys 1981, a = -0.75)."""

from typing import Any

from day0.spec.cases import Draw, cases
from day0.spec.lazy import torch, wide
from day0.spec.ops import Budget, Cost, Op, Site

CUBIC = -0.75  # Keys' parameter, that of torch and OpenCV


def resample_grid(
    table_JJD: "torch.Tensor", row_T: "torch.Tensor", column_T: "torch.Tensor", grid: tuple[int, int], kernel: str, corners: bool = False
) -> "torch.Tensor":  # fmt: skip
    """→ [T, D], the vectors of places given by row and column in a grid of so many. `corners`: the outermost places of both grids coincide;
    else their areas do. Beyond the edge its value counts."""
    table, side = wide(table_JJD), table_JJD.shape[0]
    down, across = (taps(place_T, count, side, kernel, corners) for place_T, count in zip((row_T, column_T), grid, strict=True))
    y_TD = torch.zeros(row_T.shape[0], table.shape[-1], device=table.device, dtype=table.dtype)
    for row, one in down:
        for column, other in across:
            y_TD += (one * other).to(table.dtype)[:, None] * table[row, column]
    return y_TD.to(table_JJD.dtype)


def taps(place_T: "torch.Tensor", count: int, side: int, kernel: str, corners: bool) -> "list[tuple[torch.Tensor, torch.Tensor]]":
    """(places of the learned axis, their shares), one for each point of the kernel."""
    place = place_T.float()
    place = place * (side - 1) / max(count - 1, 1) if corners else (place + 0.5) * side / count - 0.5
    low, found = place.floor(), []
    for offset in (0, 1) if kernel == "bilinear" else (-1, 0, 1, 2):
        distance = (place - low - offset).abs()
        found.append(((low.long() + offset).clamp(0, side - 1), 1 - distance if kernel == "bilinear" else cubic(distance)))
    return found


def cubic(distance: "torch.Tensor") -> "torch.Tensor":
    """Keys' kernel."""
    near = ((CUBIC + 2) * distance - (CUBIC + 3)) * distance**2 + 1
    far = ((CUBIC * distance - 5 * CUBIC) * distance + 8 * CUBIC) * distance - 4 * CUBIC
    return torch.where(distance <= 1, near, far)


def make(draw: Draw, T: int, J: int, D: int, grid: tuple[int, int], kernel: str, corners: bool) -> dict[str, Any]:
    places = {"row_T": draw.integers(grid[0], T), "column_T": draw.integers(grid[1], T)}
    return {"table_JJD": draw.normal(J, J, D), **places, "grid": grid, "kernel": kernel, "corners": corners}


def cost(site: Site) -> Cost:
    taps = 16 if site.options.get("kernel") == "bicubic" else 4
    return Cost(flops=2 * taps * site.T * site.D, bytes=2 * (site.J**2 + site.T) * site.D)


OP = Op(
    name="resample_grid", reference=resample_grid, inputs={"table": "JJD", "row": "T", "column": "T"}, outputs={"y": "TD"}, layer="base",
    cases=cases(make, T=(1, 63), J=(1, 16), D=(60,), grid=((1, 4), (7, 63)), kernel=("bilinear", "bicubic"), corners=(False, True)),
    budget=Budget(accumulations=16), cost=cost,
)  # fmt: skip
