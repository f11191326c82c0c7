"""Pictures of awkward sizes, drawn from a seed: gradients, lines and noise, so that every filter leaves its trace."""

import numpy
from PIL import Image

SIZES = [
    (1, 1), (2, 1), (1, 7), (3, 3), (13, 14), (14, 14), (15, 27), (27, 28), (28, 28), (29, 55), (26, 28), (31, 31), (32, 130), (56, 56),
    (57, 83), (64, 63), (100, 100), (112, 112), (113, 111), (127, 300), (300, 127), (168, 168), (169, 90), (250, 250), (333, 77), (20, 700),
    (700, 20), (511, 513), (640, 480), (1000, 999), (5, 60), (60, 5), (900, 130),
]  # fmt: skip


def drawn(size: tuple[int, int]) -> Image.Image:
    """RGB of (width, height)."""
    width, height = size
    random = numpy.random.default_rng(width * 10_007 + height)
    down, across = numpy.mgrid[0:height, 0:width]
    gradient = numpy.stack([down * 255 / height, across * 255 / width, (down * 3 + across * 5) % 256], axis=-1)
    noise = random.integers(0, 256, (height, width, 3))
    mixed = numpy.where(((down // 3 + across // 5) % 2 == 0)[..., None], gradient, noise)
    return Image.fromarray(mixed.astype("uint8"))
