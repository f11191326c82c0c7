"""The C library's heap, told to return freed memory to the system."""

import ctypes

M_MMAP_THRESHOLD = -3  # mallopt's name for it, malloc.h
BLOCK = 1 << 18  # bytes from which a block is mapped alone, and unmapped when it is freed


def return_freed_memory() -> None:
    """From now on large blocks go back as soon as they are freed.

    By default glibc raises its threshold to the size of what was freed (up to 32 MiB) and keeps such blocks, so that a process that reads
    layer after layer seems to hold several. Other C libraries have no such call, and need none.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, BLOCK)
