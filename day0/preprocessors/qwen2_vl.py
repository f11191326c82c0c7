"""Qwen2-VL, 2.5 and 3: both sides become whole squares, the number of pixels stays between bounds, proportions nearly (arXiv 2409.12191)."""

import math
from typing import Any

from day0.checkpoint.config import Config
from day0.checkpoint.look import CLIP, expect_size, positive_size, read_colours, read_resample
from day0.spec.encoder import Encoder
from day0.spec.errors import Day0Error
from day0.spec.preprocessor import Look, Preprocessor, one_each
from day0.spec.record import record

PIXELS = 1 << 26  # of an image, whatever the configuration says
RATIO = 200  # of the longer side to the shorter, at the most


@record
class Bounds(Look):
    """Pixels of an image."""

    least: int  #: at least, where whole squares allow
    most: int  #: at the most, where both sides have more than one square
    resample: int  #: pillow's filter


def read(config: Config, encoder: Encoder) -> Bounds:
    expect_size(config, "patch_size", encoder.side)
    expect_size(config, "merge_size", encoder.merge)
    expect_size(config, "temporal_patch_size", encoder.frames)
    size, area = config.sub("size"), (encoder.side * encoder.merge) ** 2
    least = positive_size(config, "min_pixels", positive_size(size, "shortest_edge", 4 * area, PIXELS), PIXELS)
    most = positive_size(config, "max_pixels", positive_size(size, "longest_edge", 1280 * area, PIXELS), PIXELS)
    return Bounds(**read_colours(config, CLIP), least=least, most=most, resample=read_resample(config, 3))


def most(look: Bounds, encoder: Encoder) -> int:
    return max(look.most // encoder.side**2, RATIO * encoder.merge**2)


def views(image: Any, look: Bounds, encoder: Encoder) -> list[Any]:
    import numpy

    width, height = image.size
    if max(image.size) > RATIO * min(image.size):
        raise Day0Error(f"{width} × {height} pixels: one side is more than {RATIO} times the other", hint="this model takes no such image")
    rows, columns = size(height, width, encoder.side * encoder.merge, look)
    return [numpy.asarray(image.resize((columns, rows), look.resample))]


def size(height: int, width: int, square: int, look: Bounds) -> tuple[int, int]:
    """(height, width) in pixels."""
    rows, columns = (round(length / square) * square for length in (height, width))
    if rows * columns > look.most:
        factor = math.sqrt(height * width / look.most)
        return max(square, math.floor(height / factor / square) * square), max(square, math.floor(width / factor / square) * square)
    if rows * columns < look.least:
        factor = math.sqrt(look.least / (height * width))
        return math.ceil(height * factor / square) * square, math.ceil(width * factor / square) * square
    return rows, columns


PREPROCESSOR = Preprocessor(read=read, most=most, views=views, tokens=one_each)
