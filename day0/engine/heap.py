"""The memory of this process: large blocks go back when they are freed, and weights that stay lie in huge pages."""

import ctypes
import mmap

from torch import Tensor

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


def use_huge_pages(buffers: list[Tensor]) -> None:
    """Ask the system for huge pages under buffers of host memory that nobody has written to yet; neighbours share the pages at their borders.

    A decode step reads every weight once, and with pages of 4 KiB a fifth of its time goes into looking up addresses (`bench/linear.py`).
    """
    advise = getattr(ctypes.CDLL(None), "madvise", None)
    if advise is None or not hasattr(mmap, "MADV_HUGEPAGE"):
        return
    for buffer in buffers:
        if buffer.is_cpu and buffer.nbytes >= mmap.PAGESIZE:
            start = buffer.data_ptr() // mmap.PAGESIZE * mmap.PAGESIZE
            advise(ctypes.c_void_p(start), ctypes.c_size_t(buffer.data_ptr() + buffer.nbytes - start), mmap.MADV_HUGEPAGE)
