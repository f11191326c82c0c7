"""Kimi K2.5: images are scaled down to a budget of patches, never up, and lie on a canvas of whole squares, black beyond them."""

import math
from typing import Any

from day0.checkpoint.config import Config
from day0.checkpoint.look import HALF, expect_size, positive_size, read_colours
from day0.spec.encoder import Encoder
from day0.spec.lazy import functional, torch
from day0.spec.preprocessor import Look, Preprocessor, one_each
from day0.spec.record import record


@record
class Budget(Look):
    """Patches of an image."""

    most: int  #: in all
    side: int  #: along one side


def read(config: Config, encoder: Encoder) -> Budget:
    """The release nests its settings in `media_proc_cfg`; transformers writes them flat, under other names."""
    nested = config.sub("media_proc_cfg") if "media_proc_cfg" in config else config
    expect_size(nested, "patch_size", encoder.side)
    expect_size(nested, nested.first("merge_kernel_size", "merge_size"), encoder.merge)
    most = positive_size(nested, nested.first("in_patch_limit", "max_patches"), 16384)
    side = positive_size(nested, "patch_limit_on_one_side", positive_size(nested.sub("size"), "max_height", 512))
    return Budget(**read_colours(nested, HALF), most=most, side=side)


def most(look: Budget, encoder: Encoder) -> int:
    """The budget, and what filling up both sides adds."""
    longest = min(look.side, look.most)
    return look.most + encoder.merge * (longest + look.most // longest) + encoder.merge**2


def views(image: Any, look: Budget, encoder: Encoder) -> list[Any]:
    width, height = image.size
    rows, columns = size(height, width, encoder.side, look)
    square = encoder.side * encoder.merge
    return [filled(resized(image, rows, columns, "bicubic"), -(-rows // square) * square, -(-columns // square) * square)]


def size(height: int, width: int, side: int, look: Budget) -> tuple[int, int]:
    """(height, width) in pixels, before they are filled up."""
    patches = max(1.0, height // side) * max(1.0, width // side)
    limit = look.side * side
    factor = min(1.0, math.sqrt(look.most / patches), limit / height, limit / width)
    return min(max(1, int(height * factor)), limit), min(max(1, int(width * factor)), limit)


def resized(image: Any, rows: int, columns: int, kernel: str) -> Any:
    """uint8 [rows, columns, 3], by torch's filter: pillow's differs from it by one step in some pixels."""
    import numpy

    pixels = torch.from_numpy(numpy.array(image)).permute(2, 0, 1)[None]
    if (rows, columns) != tuple(pixels.shape[-2:]):
        pixels = functional.interpolate(pixels, size=(rows, columns), mode=kernel, antialias=True)
    return pixels[0].permute(1, 2, 0).numpy()


def filled(pixels: Any, rows: int, columns: int) -> Any:
    """Black below and to the right."""
    import numpy

    return numpy.pad(pixels, ((0, rows - pixels.shape[0]), (0, columns - pixels.shape[1]), (0, 0)))


PREPROCESSOR = Preprocessor(read=read, most=most, views=views, tokens=one_each)
