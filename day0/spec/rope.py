"""Rotary position embedding: which dimensions turn, how fast, and how far a release stretched them."""

import math
from typing import Literal

from day0.spec.record import record

Stretch = Literal["none", "linear", "llama3", "yarn"]


@record
class Rope:
    """Rotation of the first `dim` dimensions of a head (RoFormer, arXiv 2104.09864)."""

    dim: int  #: rotary dimensions, even
    theta: float  #: base of the wavelengths
    interleaved: bool = False  #: pairs are neighbours (2i, 2i + 1) instead of halves (i, i + dim/2)
    stretch: Stretch = "none"  #: rule that scales the frequencies
    factor: float = 1.0  #: how many times the original context
    original_context: int = 0  #: tokens before stretching
    low: float = 1.0  #: llama3: low_freq_factor; yarn: beta_slow
    high: float = 1.0  #: llama3: high_freq_factor; yarn: beta_fast
    truncate: bool = True  #: yarn: whether the ramp's ends are rounded to whole dimensions
    attention_factor: float = 1.0  #: factor on cosine and sine
    axes: tuple[int, ...] = ()  #: for each pair the position it turns with: 0 time, 1 row, 2 column of an image; (): all with the one there is

    def frequencies(self) -> list[float]:
        """Radians a token for each pair of dimensions, dim/2 of them."""
        plain = [self.theta ** (-2 * i / self.dim) for i in range(self.dim // 2)]
        return {"none": lambda f: f, "linear": self._linear, "llama3": self._llama3, "yarn": self._yarn}[self.stretch](plain)

    def _linear(self, plain: list[float]) -> list[float]:
        return [f / self.factor for f in plain]

    def _llama3(self, plain: list[float]) -> list[float]:
        """Llama 3.1: long wavelengths are stretched, short ones kept, those between interpolated."""
        longest, shortest = self.original_context / self.low, self.original_context / self.high
        scaled = []
        for f in plain:
            wavelength = 2 * math.pi / f
            if wavelength < shortest:
                scaled.append(f)
            elif wavelength > longest:
                scaled.append(f / self.factor)
            else:
                smooth = (self.original_context / wavelength - self.low) / (self.high - self.low)
                scaled.append((1 - smooth) * f / self.factor + smooth * f)
        return scaled

    def _yarn(self, plain: list[float]) -> list[float]:
        """YaRN (arXiv 2309.00071, §3.2): a ramp over the dimensions between stretched and kept frequencies."""
        first, last = self._turns(self.high), self._turns(self.low)
        if self.truncate:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, self.dim - 1)
        if first == last:
            last += 0.001
        scaled = []
        for i, f in enumerate(plain):
            ramp = min(max((i - first) / (last - first), 0.0), 1.0)
            scaled.append(f / self.factor * ramp + f * (1 - ramp))
        return scaled

    def _turns(self, rotations: float) -> float:
        """Dimension that turns `rotations` times within the original context."""
        return self.dim * math.log(self.original_context / (rotations * 2 * math.pi)) / (2 * math.log(self.theta))


def yarn_mscale(factor: float, mscale: float = 1.0) -> float:
    """Growth of attention logits under YaRN (arXiv 2309.00071, §3.4)."""
    return 1.0 if factor <= 1 else 0.1 * mscale * math.log(factor) + 1.0
