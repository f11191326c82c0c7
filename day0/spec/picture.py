"""An image as a tower reads it."""

from typing import TYPE_CHECKING, Any

from day0.spec.lazy import torch
from day0.spec.record import record

if TYPE_CHECKING:
    from torch import Tensor


@record
class View:
    """One rectangle of pixels that is encoded by itself: the whole image, or a piece of it."""

    patches: Any  #: float32 array [patches, pixels of one], normalised, in the order that the tower wants
    grid: tuple[int, int]  #: rows and columns of patches


@record
class Picture:
    """One image, cut into patches."""

    views: tuple[View, ...]  #: in the order in which their embeddings stand in the prompt
    tokens: tuple[int, ...]  #: what stands for it in a prompt: one `token` for each embedding, and what the release puts between views
    token: int  #: id that stands for an embedding
    digest: str  #: sha256 of the patches: images with the same one have the same embeddings

    @property
    def embeddings(self) -> int:
        """Positions of a prompt that hold what the tower makes of it."""
        return self.tokens.count(self.token)

    @property
    def patches(self) -> int:
        """Patches of all views."""
        return sum(rows * columns for rows, columns in (view.grid for view in self.views))


@record
class Placed:
    """An image in a prompt."""

    start: int  #: position of the first of its tokens
    picture: Picture  #: what is there

    @property
    def stop(self) -> int:
        """Position after the last of its tokens."""
        return self.start + len(self.picture.tokens)


def places(grid: tuple[int, int], squares: int) -> "tuple[Tensor, Tensor]":
    """(row, column) of each patch of a view, int64 [T]; they come in squares of so many along each side, row by row within one."""
    rows, columns = grid
    axes = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    split = (rows // squares, squares, columns // squares, squares)
    row_T, column_T = (axis.reshape(split).transpose(1, 2).flatten() for axis in axes)
    return row_T, column_T
