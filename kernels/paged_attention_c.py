"""Decode over pages where they lie: nothing is gathered, and a page is read by all of its heads before the next one is."""

import ctypes
from typing import Any

from day0.kernels.c.build import lacking, library, threads
from day0.kernels.c.worth import too_short
from day0.spec.lazy import torch
from day0.spec.ops import Impl, Site

POINTERS, SIZES = ("q", "k", "v", "sinks", "table", "lengths"), ("B", "H", "N", "Q", "V", "page", "pages")
HEADS, WIDTH = 512, 4096  # that a thread's stack has room for


class Call(ctypes.Structure):
    """`call` of attention.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in POINTERS), *((name, ctypes.c_int64) for name in SIZES), ("q_strides", ctypes.c_int64 * 2),
        ("k_strides", ctypes.c_int64 * 3), ("v_strides", ctypes.c_int64 * 3), ("narrow", ctypes.c_int64), ("scale", ctypes.c_float),
    )  # fmt: skip


def launch(
    q_THQ: Any, k_pages: Any, v_pages: Any, segment: Any, scale: float, sinks_H: Any = None, window: int | None = None,
    chunked: bool = False,
) -> Any:  # fmt: skip
    B, H, Q = q_THQ.shape
    N, V = v_pages.shape[2:]
    table_BP, lengths = segment.table_BP.contiguous(), (ctypes.c_int64 * B)(*segment.lengths)
    sinks = None if sinks_H is None else sinks_H.float().contiguous()
    assert all(x.stride(-1) == 1 and x.dtype == q_THQ.dtype for x in (q_THQ, k_pages, v_pages))
    y_THV = torch.empty(B, H, V, dtype=torch.float32)
    call = Call(
        q=q_THQ.data_ptr(), k=k_pages.data_ptr(), v=v_pages.data_ptr(), sinks=None if sinks is None else sinks.data_ptr(),
        table=table_BP.data_ptr(), lengths=ctypes.addressof(lengths), B=B, H=H, N=N, Q=Q, V=V, page=k_pages.shape[1],
        pages=table_BP.shape[1], q_strides=q_THQ.stride()[:2], k_strides=k_pages.stride()[:3], v_strides=v_pages.stride()[:3],
        narrow=q_THQ.dtype == torch.bfloat16, scale=scale,
    )  # fmt: skip
    if not library().attend(ctypes.byref(call), ctypes.c_void_p(y_THV.data_ptr()), threads()):
        raise MemoryError(f"weighted sums of {sum(segment.lengths)} entries")
    return y_THV.to(q_THQ.dtype)


def refuses(site: Site, machine: Any) -> str | None:
    if site.phase != "decode":
        return "reads one query a sequence"
    if site.options.get("window"):
        return "knows no windows"
    if site.dtype not in ("bfloat16", "float32"):
        return f"computes in bfloat16 and float32, not {site.dtype}"
    if site.H > HEADS or site.V > WIDTH:
        return f"has room for {HEADS} heads of {WIDTH}"
    return too_short(site) or lacking(machine)


IMPL = Impl(op="paged_attention", provider="c", fn=launch, refuses=refuses, status="native")
