"""Bytes of tensors, from the file straight into the caller's memory."""

import os
from pathlib import Path

from day0.spec.errors import Day0Error
from day0.spec.format import TensorHeader

CALL = 1 << 30  # bytes of one system call; Linux moves less than 2 GiB at once
PIECE = 1 << 20  # bytes compared at once


def read(folder: Path, header: TensorHeader, out: memoryview, offset: int = 0) -> None:
    """Fill `out` (bytes, contiguous, writable) from byte `offset` of the tensor on.

    Day0Error when the file cannot be opened or ends too early.
    """
    assert offset >= 0 and offset + out.nbytes <= header.bytes, f"{header.name}: bytes {offset}+{out.nbytes} of {header.bytes}"
    path = folder / header.file
    out = out.cast("B")
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise Day0Error(f"{header.name} cannot be read: {error.strerror}", path, hint="run `day0 inspect` on the folder") from None
    try:
        done = 0
        while done < out.nbytes:
            count = os.preadv(handle, [out[done : done + CALL]], header.start + offset + done)
            if count == 0:
                missing = out.nbytes - done
                raise Day0Error(f"{header.name}: the file ends {missing} bytes early", path, hint="download the shard again")
            done += count
    finally:
        os.close(handle)


def same(folder: Path, one: TensorHeader, other: TensorHeader, limit: int) -> bool:
    """Whether two tensors hold equal bytes, as far as their first `limit` tell."""
    if one.bytes != other.bytes:
        return False
    for offset in range(0, min(one.bytes, limit), PIECE):
        size = min(PIECE, one.bytes - offset)
        a, b = bytearray(size), bytearray(size)
        read(folder, one, memoryview(a), offset)
        read(folder, other, memoryview(b), offset)
        if a != b:
            return False
    return True
