"""A weight that stays as its format stores it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from day0.spec.registry import formats

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Packed:
    """One weight (or one bank of experts) as its format stores it."""

    format: str  #: file name in formats/
    parts: dict[str, Tensor]  #: by the format's names; a bank has the experts as first axis
    block: tuple[int, ...]  #: elements that share one scale
    shape: tuple[int, ...]  #: once decoded
    dtype: Any  #: type to decode into
    bank: bool = False  #: whether the first axis are experts
    turned: bool = False  #: whether the format holds it with its last two axes exchanged

    def expert(self, e: int) -> Packed:
        """One expert of a bank; a part that serves all of them is each one's own."""
        own = {name: part[e] if part.ndim and part.shape[0] == self.shape[0] else part for name, part in self.parts.items()}
        return Packed(self.format, own, self.block, self.shape[1:], self.dtype, turned=self.turned)

    def decode(self, out: Tensor) -> Tensor:
        """Write the decoded weight into `out` and return it."""
        formats().get(self.format).decode(self.parts, self.block, out.transpose(-1, -2) if self.turned else out)
        return out
