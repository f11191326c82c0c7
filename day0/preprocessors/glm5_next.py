"""GLM-5.3-Flash: the image keeps its proportions on a canvas of whole squares, black beyond it, within a budget of tokens."""

import math
from typing import Any

from day0.checkpoint.config import Config
from day0.checkpoint.look import CLIP, expect_size, positive_size, read_colours, read_resample
from day0.spec.encoder import Encoder
from day0.spec.preprocessor import Look, Preprocessor, one_each
from day0.spec.record import record

TOKENS = 1 << 16  # of an image, whatever the configuration says


@record
class Canvas(Look):
    """Bounds of the canvas."""

    least: int  #: squares, which become one token each
    most: int  #: squares
    resample: int  #: pillow's filter


def read(config: Config, encoder: Encoder) -> Canvas:
    expect_size(config, "patch_size", encoder.side)
    expect_size(config, "merge_size", encoder.merge)
    expect_size(config, "temporal_patch_size", encoder.frames)
    expect_size(config, "patch_expand_factor", 1)
    return Canvas(
        **read_colours(config, CLIP), least=positive_size(config, "min_image_tokens", 16, TOKENS),
        most=positive_size(config, "max_image_tokens", 8000, TOKENS), resample=read_resample(config, 3),
    )  # fmt: skip


def most(look: Canvas, encoder: Encoder) -> int:
    return look.most * encoder.merge**2


def views(image: Any, look: Canvas, encoder: Encoder) -> list[Any]:
    import numpy

    width, height = image.size
    square = encoder.side * encoder.merge
    rows, columns = canvas(height, width, square, look)
    factor = min(rows / height, columns / width)
    if height * width >= square**2 * look.least:
        factor = min(1.0, factor)
    size = [max(1, min(room, math.floor(length * factor))) for room, length in ((columns, width), (rows, height))]
    if tuple(size) != image.size:
        image = image.resize(tuple(size), look.resample)
    return [numpy.pad(numpy.asarray(image), ((0, rows - size[1]), (0, columns - size[0]), (0, 0)))]


def canvas(height: int, width: int, square: int, look: Canvas) -> tuple[int, int]:
    """(height, width) in pixels: whole squares that hold the image, more where they are too few, scaled down where they are too many."""
    rows, columns = aligned(height, square), aligned(width, square)
    least, most = look.least * square**2, look.most * square**2
    if rows * columns < least:
        factor = math.sqrt(least / (height * width))
        rows, columns = (aligned(max(1, math.ceil(length * factor)), square) for length in (height, width))
    return fitting(height, width, square, most) if rows * columns > most else (rows, columns)


def fitting(height: int, width: int, square: int, most: int) -> tuple[int, int]:
    """The canvas of the largest image in these proportions that has at most `most` pixels."""
    best, low, high = (square, square), 1, height
    while low <= high:
        middle = (low + high) // 2
        rows, columns = aligned(middle, square), aligned(max(1, math.floor(width * middle / height)), square)
        if rows * columns <= most:
            best, low = (rows, columns), middle + 1
        else:
            high = middle - 1
    return best


def aligned(length: int, square: int) -> int:
    return math.ceil(length / square) * square


PREPROCESSOR = Preprocessor(read=read, most=most, views=views, tokens=one_each)
