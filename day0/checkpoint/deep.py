"""Values of weights, looked at by samples: what is NaN, infinite or all zero. A stated share of the bytes is read, without torch."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from day0.checkpoint.bytes import read
from day0.spec.errors import Day0Error
from day0.spec.format import TensorHeader
from day0.spec.lazy import numpy as np
from day0.spec.progress import Progress, silent

ALL = 1 << 30  # bytes read from all tensors together, if each gets its least
MOST, LEAST = 64 << 10, 1 << 10  # bytes read from one tensor
PIECES = 4  # places of a tensor that they are spread over
EXPONENTS = {  # type → (its bits, those of the exponent: all set in NaN and infinite values)
    "F64": ("<u8", 0x7FF << 52), "F32": ("<u4", 0xFF << 23), "F16": ("<u2", 0x1F << 10), "BF16": ("<u2", 0xFF << 7), "F8_E5M2": ("u1", 0x7C),
}  # fmt: skip
CODES = {"F8_E4M3": 0x7F, "F8_E8M0": 0xFF}  # type → the code, without its sign, that is NaN; E8M0 has no sign


class Sampled(NamedTuple):
    """What a sample of one tensor holds."""

    header: TensorHeader
    bytes: int  #: that were read
    odd: int  #: NaN and infinite values among them; 0 for whole numbers
    zero: bool  #: whether every byte is zero
    problem: str  #: why it could not be read; "" when it could


def sample(folder: Path, headers: Mapping[str, TensorHeader], progress: Progress = silent) -> Iterator[Sampled]:
    """One sample of each tensor, in the order of the files: whole tensors where they are small."""
    ordered = sorted(headers.values(), key=lambda header: (header.file, header.start))
    size = min(MOST, max(LEAST, ALL // max(1, len(ordered)) // 64 * 64))
    for done, header in enumerate(ordered):
        if done % 1000 == 0:
            progress("sampling weights", done, len(ordered))
        try:
            raw = b"".join(_pieces(folder, header, size))
        except Day0Error as error:
            yield Sampled(header, 0, 0, False, error.problem)
        else:
            yield Sampled(header, len(raw), odd(raw, header.dtype), bool(raw) and not raw.strip(b"\0"), "")


def _pieces(folder: Path, header: TensorHeader, most: int) -> Iterator[bytes]:
    """The whole of a small tensor; of a larger one the beginning, the end, and what lies between, from whole elements on."""
    count = 1 if header.bytes <= most else PIECES
    size = min(header.bytes, most // count)
    for piece in range(count):
        buffer = bytearray(size)
        last = piece == count - 1
        read(folder, header, memoryview(buffer), header.bytes - size if last else header.bytes // count * piece // 8 * 8)
        yield bytes(buffer)


def odd(raw: bytes, dtype: str) -> int:
    """NaN and infinite values among the elements of one type."""
    if dtype in EXPONENTS:
        kind, exponent = EXPONENTS[dtype]
        values = np.frombuffer(raw, kind)
        return int(((values & values.dtype.type(exponent)) == exponent).sum())
    if dtype in CODES:
        codes = np.frombuffer(raw, "u1")
        return int(((codes if dtype == "F8_E8M0" else codes & 0x7F) == CODES[dtype]).sum())
    return 0
