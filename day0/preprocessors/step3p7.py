"""Step-3.7: the whole image as one square, and, where it is large or long, pieces of it as smaller squares before that."""

from collections.abc import Callable, Iterator
from typing import Any

from day0.checkpoint.config import Config
from day0.checkpoint.look import CLIP, positive_size, read_colours
from day0.preprocessors.kimi_k25 import filled, resized
from day0.spec.encoder import Encoder
from day0.spec.errors import Day0Error
from day0.spec.preprocessor import Look, Preprocessor
from day0.spec.record import record

NARROW, LONG = 32, 4  # an image with a shorter side below the first and sides in a ratio above the second is made square first
SIDE = 1 << 12  # pixels of a square, whatever the configuration says
STRIDE = 4  # patches along a side that become one embedding


@record
class Squares(Look):
    """Sizes in pixels."""

    whole: int  #: side of the square that shows the whole image
    piece: int  #: side of a square that shows a piece
    longest: int  #: side of an image that is not scaled down before it is cut


def read(config: Config, encoder: Encoder) -> Squares:
    found = Squares(
        **read_colours(config, CLIP), whole=positive_size(config.sub("size"), "height", 728, SIDE),
        piece=positive_size(config, "patch_size", 504, SIDE), longest=positive_size(config, "max_image_size", 3024, 1 << 16),
    )  # fmt: skip
    if found.whole % encoder.side or found.piece % encoder.side:
        raise Day0Error(f"squares of {found.whole} and {found.piece} pixels are not whole patches of {encoder.side}", config.path)
    return found


def most(look: Squares, encoder: Encoder) -> int:
    pieces = max((-(-look.longest // look.piece)) ** 2, -(-look.longest // NARROW))
    return (look.whole // encoder.side) ** 2 + pieces * (look.piece // encoder.side) ** 2


def views(image: Any, look: Squares, encoder: Encoder) -> list[Any]:
    from PIL import Image

    width, height, window = plan(image.size, look)
    if is_narrow(image.size):
        side = max(image.size)
        image = Image.fromarray(filled(resized(image, image.height, image.width, "bilinear"), side, side))
    pieces = list(cut(image, snapped(width, window), snapped(height, window), window, look)) if window else []
    whole = Image.fromarray(resized(image, height, width, "bilinear"))
    return [*pieces, resized(whole, look.whole, look.whole, "bilinear")]


def cut(image: Any, width: int, height: int, window: int, look: Squares) -> Iterator[Any]:
    """Pieces row by row, of the image brought to a size of whole windows."""
    from PIL import Image

    pixels = resized(image, height, width, "bilinear")
    for top in range(0, height, window):
        for left in range(0, width, window):
            yield resized(Image.fromarray(pixels[top : top + window, left : left + window]), look.piece, look.piece, "bilinear")


def is_narrow(size: tuple[int, int]) -> bool:
    return min(size) < NARROW and max(size) > LONG * min(size)


def plan(size: tuple[int, int], look: Squares) -> tuple[int, int, int]:
    """(width, height) of the image before it is cut, and the side of its pieces; 0 where it is shown whole alone."""
    width, height = (max(size), max(size)) if is_narrow(size) else size
    if max(width, height) > look.longest:
        factor = look.longest / max(width, height)
        width, height = max(1, int(width * factor)), max(1, int(height * factor))
    short, long = sorted((width, height))
    if long <= look.whole:
        return width, height, short if long > 1.5 * short else 0
    return width, height, min(short, look.piece) if long > LONG * short else look.piece


def snapped(length: int, window: int) -> int:
    """A whole number of windows: one more where more than a fifth of one is left. What is shorter than a window stays."""
    return window * (length // window + (length % window > 0.2 * window)) if length >= window else length


def tokens(
    size: tuple[int, int], grids: list[tuple[int, int]], look: Squares, encoder: Encoder, look_up: Callable[[str], int]
) -> tuple[int, ...]:  # fmt: skip
    """Each piece between marks, a mark at the end of each row of pieces but the last, and the whole at the end."""
    width, _, window = plan(size, look)
    columns = max(1, snapped(width, window) // window) if window else 1
    *pieces, whole = [(encoder.token,) * (-(-rows // STRIDE) * -(-count // STRIDE)) for rows, count in grids]
    found: list[int] = []
    for number, piece in enumerate(pieces, start=1):
        found += [look_up("<patch_start>"), *piece, look_up("<patch_end>")]
        if number % columns == 0 and number < len(pieces):
            found.append(look_up("<patch_newline>"))
    return (*found, look_up("<im_start>"), *whole, look_up("<im_end>"))


PREPROCESSOR = Preprocessor(read=read, most=most, views=views, tokens=tokens)
