"""How pixels are made ready for a tower: what a file in `preprocessors/` exports."""

from collections.abc import Callable
from typing import Any

from day0.spec.record import record


@record
class Look:
    """What every preprocessor's configuration says."""

    scale: float  #: factor on a pixel's value, 0 to 255
    mean: tuple[float, ...]  #: of each channel, subtracted after that
    std: tuple[float, ...]  #: of each channel, divided by


@record
class Preprocessor:
    """One way to bring an image to a size; normalisation and the order of patches are the same for all."""

    read: Callable[..., Any]  #: (preprocessor_config.json as Config, Encoder) → a Look with what else this way needs
    most: Callable[..., int]  #: (look, encoder) → patches of the largest image
    views: Callable[..., Any]  #: (RGB image of pillow, look, encoder) → uint8 arrays [height, width, 3], whole patches along both sides
    tokens: Callable[..., tuple[int, ...]]
    #: ((width, height) of the image, grids of its views in patches, look, encoder, look-up: text of a token → id) → what stands for it


def one_each(_size: tuple[int, int], grids: list[tuple[int, int]], _look: Look, encoder: Any, _id: Callable[[str], int]) -> tuple[int, ...]:
    """A token for each square of patches."""
    return (encoder.token,) * sum(rows * columns // encoder.merge**2 for rows, columns in grids)
