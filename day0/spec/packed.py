"""A weight that stays as its format stores it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from day0.spec.format import Stored, TensorHeader
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

    def rows(self, start: int, stop: int) -> Packed:
        """Some rows of a matrix. Where they begin or end within a block, each of them gets its block's scales for itself.

        ValueError where they begin or end within a word that holds several.
        """
        headers = {name: TensorHeader(name, "", tuple(part.shape), "", 0, 0) for name, part in self.parts.items()}
        cut = formats().get(self.format).steps
        steps = cut(Stored("", self.format, self.shape, headers, self.block), 0) if cut else None
        if steps is None:
            raise ValueError(f"{self.format} weights cannot be cut by rows")
        parts, block = dict(self.parts), self.block
        for name in steps.keys() & parts.keys():
            axis, step = steps[name]
            if start % step or (stop % step and stop < self.shape[0]):
                if not block or step != block[0]:
                    raise ValueError(f"rows {start} to {stop} of {self.format} weights do not begin and end with words of {step}")
                parts[name], step, block = parts[name].repeat_interleave(step, axis), 1, (1, *block[1:])
            parts[name] = parts[name].narrow(axis, start // step, -(-stop // step) - start // step)
        return Packed(self.format, parts, block, (stop - start, *self.shape[1:]), self.dtype, turned=self.turned)

    def decode(self, out: Tensor) -> Tensor:
        """Write the decoded weight into `out` and return it."""
        formats().get(self.format).decode(self.parts, self.block, out.transpose(-1, -2) if self.turned else out)
        return out


def rows(weight: Tensor | Packed, start: int, stop: int) -> Tensor | Packed:
    """Some rows of a matrix, however it is kept."""
    return weight.rows(start, stop) if isinstance(weight, Packed) else weight[start:stop]
