"""Rotary embedding in two dimensions: some pairs turn with the row of a patch, the others with its column."""

from typing import Literal

from day0.spec.record import record


@record
class AxialRope:
    """Rotation of whole heads: half of the pairs by the row, half by the column (2D RoPE, arXiv 2403.13298, axial form)."""

    dim: int  #: width of a head, a multiple of 4
    theta: float  #: base of the wavelengths
    order: Literal["rows, columns", "columns, rows", "column and row in turn"]  #: what the pairs turn with, from the first to the last
    interleaved: bool = False  #: pairs are neighbours (2i, 2i + 1) instead of halves (i, i + dim/2)

    def frequencies(self) -> list[float]:
        """Radians for each step along an axis, dim/4 of them."""
        return [self.theta ** (-4 * i / self.dim) for i in range(self.dim // 4)]
