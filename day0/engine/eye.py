"""Images as the release's preprocessor configuration makes them ready for its tower."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from day0.checkpoint.config import Config
from day0.checkpoint.source import Source, at
from day0.engine.image import pixels
from day0.spec.encoder import Encoder
from day0.spec.errors import Day0Error
from day0.spec.picture import Picture, Placed, View
from day0.spec.preprocessor import Look, Preprocessor
from day0.spec.registry import preprocessors

FILE = "preprocessor_config.json"
HINT = "each image has one, and text must not spell it"


class Eye:
    """Makes pictures of pixels. Without a configuration file the preprocessor's own defaults count."""

    def __init__(self, look: Look, rule: Preprocessor, encoder: Encoder, look_up: Callable[[str], int]) -> None:
        self.look, self.rule, self.encoder, self.look_up = look, rule, encoder, look_up

    @classmethod
    def open(cls, place: Source | Path, encoder: Encoder, look_up: Callable[[str], int] | None = None) -> "Eye":
        """From the release's files; needs neither torch nor pillow. `look_up` finds the id of a token by its text."""
        rule: Preprocessor = preprocessors().get(encoder.processor)
        source = at(place)
        config = Config.load(source, FILE) if source.size(FILE) is not None else Config({}, source.path(FILE))
        return cls(rule.read(config, encoder), rule, encoder, look_up or _unknown)

    @property
    def most(self) -> int:
        """Patches of the largest image."""
        return self.rule.most(self.look, self.encoder)

    def read(self, data: bytes, where: str | Path) -> Picture:
        """A picture of the bytes of an image file."""
        image = pixels(data, where)
        try:
            return self.see(image)
        except Day0Error as error:
            raise Day0Error(error.problem, error.where or where, hint=error.hint) from None

    def see(self, image: Any) -> Picture:
        """A picture of an RGB image of pillow."""
        views = tuple(self._view(view) for view in self.rule.views(image, self.look, self.encoder))
        tokens = self.rule.tokens(image.size, [view.grid for view in views], self.look, self.encoder, self.look_up)
        return picture(views, tokens, self.encoder)

    def _view(self, pixels_HWC: Any) -> View:
        """Normalised, and cut into patches in the order of the tower: channels, frames, rows and columns of each."""
        import numpy

        encoder, look = self.encoder, self.look
        scaled = (pixels_HWC.astype(numpy.float64) * look.scale).astype(numpy.float32)
        normed = (scaled - numpy.array(look.mean, numpy.float32)) / numpy.array(look.std, numpy.float32)
        rows, columns = (length // encoder.side for length in normed.shape[:2])
        merge = encoder.squares
        cut = normed.reshape(rows // merge, merge, encoder.side, columns // merge, merge, encoder.side, 3)
        cut = cut.transpose(0, 3, 1, 4, 6, 2, 5).reshape(rows * columns, 3, 1, encoder.side**2)
        patches = numpy.broadcast_to(cut, (rows * columns, 3, encoder.frames, encoder.side**2))
        return View(patches=numpy.array(patches.reshape(rows * columns, -1)), grid=(rows, columns))


def _unknown(text: str) -> int:
    raise Day0Error(f"there is no tokenizer to find the token {text} in")


def picture(views: tuple[View, ...], tokens: tuple[int, ...], encoder: Encoder) -> Picture:
    """Views under their digest."""
    digest = hashlib.sha256()
    for view in views:
        digest.update(repr(view.grid).encode() + view.patches.tobytes())
    return Picture(views=views, tokens=tokens, token=encoder.token, digest=digest.hexdigest())


def place(tokens: Sequence[int], pictures: Sequence[Picture], token: int, where: str | None = None) -> tuple[list[int], tuple[Placed, ...]]:
    """A prompt in which each placeholder has become what stands for its image, and where that is.

    A placeholder is one image token, or all tokens of the image already. There must be as many as there are images.
    """
    found, placed, left = walk(tokens, pictures, token)
    if left or len(placed) != len(pictures):
        raise Day0Error(f"{len(placed) + left} image placeholders for {len(pictures)} images", where, hint=HINT)
    return found, placed


def walk(tokens: Sequence[int], pictures: Sequence[Picture], token: int) -> tuple[list[int], tuple[Placed, ...], int]:
    """`place` as far as there are pictures and placeholders; and how many image tokens are left over."""
    found: list[int] = []
    placed: list[Placed] = []
    at = 0
    while at < len(tokens):
        picture = pictures[len(placed)] if len(placed) < len(pictures) else None
        whole = picture is not None and tuple(tokens[at : at + len(picture.tokens)]) == picture.tokens
        if picture is not None and (whole or tokens[at] == token):
            placed.append(Placed(start=len(found), picture=picture))
            found += picture.tokens
            at += len(picture.tokens) if whole else 1
        else:
            found.append(tokens[at])
            at += 1
    return found, tuple(placed), found.count(token) - sum(one.picture.tokens.count(token) for one in placed)
