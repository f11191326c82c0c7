"""Bytes of an image file become red, green and blue pixels, upright; whatever is wrong with them is said."""

import base64
import binascii
import io
import re
from pathlib import Path
from typing import Any

from day0.spec.errors import Day0Error

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
MOST_BYTES = 32 << 20  # of a file
MOST_PIXELS = 64 << 20  # of an image, before it is scaled: 192 MiB in memory
DATA = re.compile(r"data:(?P<kind>[\w.+-]+/[\w.+-]+)?(?P<extra>(;[\w.+-]+=[^;,]*)*)(?P<coded>;base64)?,", re.IGNORECASE)
HINT = f"one of {', '.join(FORMATS)}, up to {MOST_PIXELS:,} pixels and {MOST_BYTES >> 20} MiB"


def read_file(path: Path) -> bytes:
    """Bytes of a file."""
    if not path.is_file():
        raise Day0Error("there is no such image", path)
    if path.stat().st_size > MOST_BYTES:
        raise Day0Error(f"an image of {path.stat().st_size >> 20} MiB", path, hint=HINT)
    return path.read_bytes()


def read_uri(uri: str, where: str) -> bytes:
    """Bytes in a `data:` URI. Nothing is fetched: other addresses are refused."""
    match = DATA.match(uri[:200])
    if match is None:
        scheme = uri[:80].partition(":")[0] if ":" in uri[:80] else "no"
        hint = "send the image itself: data:image/png;base64,…"
        raise Day0Error(f"an image address with {scheme[:20]!r} scheme is not fetched", where, hint=hint)
    if not match["coded"]:
        raise Day0Error("a data: URI without ;base64", where, hint="data:image/png;base64,…")
    coded = re.sub(r"\s+", "", uri[match.end() :])
    if len(coded) > MOST_BYTES * 4 // 3 + 4:
        raise Day0Error("the image is too large", where, hint=HINT)
    try:
        found = base64.b64decode(coded.replace("-", "+").replace("_", "/") + "=" * (-len(coded) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise Day0Error(f"the data: URI is not base64: {error}", where) from None
    if not found:
        raise Day0Error("the data: URI is empty", where, hint=HINT)
    return found


def pixels(data: bytes, where: str | Path) -> Any:
    """A pillow image in RGB: turned as its EXIF says, the first frame of an animation, on black where it is transparent."""
    try:
        from PIL import Image, ImageOps
    except ModuleNotFoundError:
        raise Day0Error("reading images needs pillow, which is not installed", hint="pip install 'day0[vision]'") from None
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            width, height = image.size
            if width * height > MOST_PIXELS:
                raise Day0Error(f"an image of {width} × {height} pixels", where, hint=HINT)
            image.load()
            return _eight_bits(ImageOps.exif_transpose(image)).convert("RGB")
    except Image.UnidentifiedImageError:
        raise Day0Error("not an image, or not in a format that is read", where, hint=HINT) from None
    except Image.DecompressionBombError:
        raise Day0Error("an image of too many pixels", where, hint=HINT) from None
    except (OSError, SyntaxError, ValueError, EOFError, IndexError, KeyError, TypeError, OverflowError, MemoryError) as error:
        raise Day0Error(f"the image cannot be decoded: {error}"[:200], where, hint="is the file complete?") from None


def _eight_bits(image: Any) -> Any:
    """Grey of 16 bits scaled to 8, where pillow would clip it."""
    if not image.mode.startswith("I"):
        return image
    import numpy
    from PIL import Image

    return Image.fromarray((numpy.asarray(image).astype("float64") / 257).round().clip(0, 255).astype("uint8"))
