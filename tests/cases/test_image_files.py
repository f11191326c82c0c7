"""Image files of every kind that people send: small, narrow, deep, transparent, turned, broken, and far too large."""

import io
import struct
import zlib
from typing import Any

import numpy
import pytest

pytest.importorskip("PIL")

from PIL import Image

from day0.engine.image import MOST_BYTES, pixels, read_file, read_uri
from day0.spec.errors import Day0Error
from tests.vision.drawn import drawn
from tests.vision.service import encoded, uri


def seen(image: Image.Image, format: str = "PNG", **options: Any) -> Any:
    return numpy.asarray(pixels(encoded(image, format, **options), "a file")).astype(int)


@pytest.mark.parametrize("size", [(1, 1), (1, 300), (27, 257), (26, 28), (10000, 2), (20000, 10)])
def test_small_and_narrow_images_keep_their_size(size: tuple[int, int]) -> None:
    assert (seen(drawn(size)) == numpy.asarray(drawn(size))).all()


@pytest.mark.parametrize("format", ["PNG", "GIF", "BMP", "WEBP", "JPEG"])
def test_formats(format: str) -> None:
    found = seen(Image.new("RGB", (9, 5), (200, 30, 90)), format)
    assert found.shape == (5, 9, 3) and abs(found - [200, 30, 90]).max() <= 6


def test_grey_of_sixteen_bits_is_scaled_not_clipped() -> None:
    deep = Image.fromarray(numpy.array([[0, 257, 32896, 65535]], dtype="uint16"))
    assert seen(deep)[0, :, 0].tolist() == [0, 1, 128, 255]


def test_grey_palette_and_alpha() -> None:
    assert seen(Image.new("L", (2, 2), 77)).tolist() == [[[77] * 3] * 2] * 2
    assert seen(Image.new("1", (2, 2), 1)).min() == 255
    assert (seen(drawn((8, 8)).quantize(8)) == numpy.asarray(drawn((8, 8)).quantize(8).convert("RGB"))).all()
    assert seen(Image.new("RGBA", (1, 1), (10, 20, 30, 0))).tolist() == [[[10, 20, 30]]]  # as transformers: transparency is dropped
    assert seen(Image.new("LA", (1, 1), (9, 128))).tolist() == [[[9, 9, 9]]]
    assert seen(Image.new("CMYK", (1, 1), (0, 255, 255, 0)), "JPEG").tolist()[0][0][0] > 200


def test_of_an_animation_the_first_frame_counts() -> None:
    first, second = Image.new("RGB", (4, 4), "red"), Image.new("RGB", (4, 4), "blue")
    found = seen(first, "GIF", save_all=True, append_images=[second], duration=100)
    assert found[0, 0].tolist() == [255, 0, 0]


@pytest.mark.parametrize("turn", range(1, 9))
def test_orientation_of_exif(turn: int) -> None:
    """Cameras store a picture as the sensor saw it and say how it was held (Exif 2.32, tag 0x0112)."""
    upright = numpy.zeros((2, 3, 3), dtype="uint8")
    upright[0, 0] = 255  # top left
    stored = {
        1: upright, 2: upright[:, ::-1], 3: upright[::-1, ::-1], 4: upright[::-1], 5: upright.transpose(1, 0, 2),
        6: upright.transpose(1, 0, 2)[::-1], 7: upright.transpose(1, 0, 2)[::-1, ::-1], 8: upright.transpose(1, 0, 2)[:, ::-1],
    }[turn]  # fmt: skip
    exif = Image.Exif()
    exif[0x0112] = turn
    assert (seen(Image.fromarray(numpy.ascontiguousarray(stored)), "PNG", exif=exif) == upright).all()


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few bytes that claims to be so large."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "not an image"),
        (b"just some text, named cat.png", "not an image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not an image"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not an image"),
        (encoded(drawn((64, 64)), "JPEG")[:700], "cannot be decoded"),
        (encoded(drawn((64, 64)))[:900], "cannot be decoded"),
        (encoded(drawn((64, 64)))[:30], "image"),
        (bomb(60_000, 60_000), "an image of"),
        (bomb(9_000, 9_000), "an image of 9000 × 9000 pixels"),
        (bomb(2**31 - 1, 2**31 - 1), "image"),
        (bomb(300, 300), "cannot be decoded"),
        (bomb(0, 7), "image"),
    ],
)
def test_what_is_broken_is_said(data: bytes, problem: str) -> None:
    with pytest.raises(Day0Error, match=problem) as caught:
        pixels(data, "cat.png")
    assert "cat.png" in str(caught.value)


def test_a_png_full_of_compressed_text_is_not_inflated() -> None:
    text = chunk(b"zTXt", b"Comment\0\0" + zlib.compress(b"a" * (80 << 20), 9))
    plain = encoded(Image.new("RGB", (2, 2)))
    with pytest.raises(Day0Error, match="cannot be decoded"):
        pixels(plain[:33] + text + plain[33:], "cat.png")


def test_files(tmp_path: Any) -> None:
    with pytest.raises(Day0Error, match="there is no such image"):
        read_file(tmp_path / "cat.png")
    with pytest.raises(Day0Error, match="there is no such image"):
        read_file(tmp_path)
    large = tmp_path / "large.png"
    with large.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(Day0Error, match="an image of 32 MiB"):
        read_file(large)


def test_data_uris() -> None:
    data = encoded(drawn((9, 9)))
    plain = uri(data)
    start, coded = plain.split(",")
    broken_lines = start + "," + "\r\n".join(coded[i : i + 76] for i in range(0, len(coded), 76))
    for one in (plain, broken_lines, plain.rstrip("="), f"data:;base64,{coded}", f"DATA:image/png;charset=utf-8;BASE64,{coded}"):
        assert read_uri(one, "here") == data
    assert pixels(read_uri(uri(data, "image/jpeg"), "here"), "here").size == (9, 9)  # the bytes say what they are


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("data:image/png;base64,", "empty"),
        ("data:image/png;base64,====", "empty|not base64"),
        ("data:image/png;base64,a*b", "not base64"),
        ("data:image/png,rawbytes", "without ;base64"),
        ("", "is not fetched"),
        ("cat.png", "is not fetched"),
        ("data:image/png;base64," + "A" * (MOST_BYTES * 4 // 3 + 100), "too large"),
    ],
    ids=lambda value: value[:40],
)
def test_data_uris_that_hold_no_image(address: str, problem: str) -> None:
    with pytest.raises(Day0Error, match=problem):
        read_uri(address, "messages[0]")


def test_decoders_that_run_programs_are_never_tried() -> None:
    """Only named formats are opened, whatever the bytes look like."""
    tiff = io.BytesIO()
    Image.new("RGB", (2, 2)).save(tiff, "TIFF")
    with pytest.raises(Day0Error, match="not in a format that is read"):
        pixels(tiff.getvalue(), "cat.png")
