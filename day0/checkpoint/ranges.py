"""Pieces of files over HTTP. A range is asked for; whatever the server does instead comes to an end: in bytes, in seconds, in tries."""

import re
import threading
import time
from collections.abc import Mapping
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

import day0
from day0.spec.errors import Day0Error

LARGEST = 128 << 20  # bytes of a piece; no file that is larger is read whole
BLOCK = 1 << 16  # bytes that are taken from a connection at once
TRIES = 5  # of a piece, dropped connections and busy servers counted
PAUSE = 0.5  # seconds before the second try; doubled before each later one
PATIENCE = 10.0  # seconds that a busy server may ask for
SILENCE = 20.0  # seconds without a byte
SLOWEST = 16 << 10  # bytes a second that are worth waiting for
HOPS = 5  # redirects of one request
BUSY = frozenset({408, 429, 500, 502, 503, 504})
MOVED = frozenset({301, 302, 303, 307, 308})
HINTS = {
    401: "it is private or gated: set HF_TOKEN to a token that may read it",
    403: "access is not granted: accept the model's conditions on its page, and set HF_TOKEN to a token that may read it",
    429: "the server asks for fewer requests: wait a few minutes, or set HF_TOKEN",
}


class Dropped(Exception):
    """A connection that ended too early; tried again, never leaves this file."""


class _Stay(HTTPRedirectHandler):
    def redirect_request(self, *_arguments: Any) -> None:
        """Redirects are followed here, so that a token stays with its host and no body is read on the way."""


class Ranges:
    """Reads pieces; safe to use from several threads. `headers` are sent to the host that is asked, and to no other."""

    def __init__(self, headers: Mapping[str, str] | None = None) -> None:
        self.headers = dict(headers or {})
        self.bytes_read = 0  # bodies, whatever they were good for
        self._lock = threading.Lock()
        self._opener = build_opener(_Stay)

    def piece(self, url: str, start: int, count: int) -> tuple[bytes, int] | None:
        """`count` bytes from `start` on, fewer where the file ends, and the size of the file; None where there is no such file."""
        if start + count > LARGEST:
            raise Day0Error(f"{start + count} bytes are wanted, at most {LARGEST >> 20} MiB of a file are read", url)
        data, problem = bytearray(), ""
        for again in range(TRIES):
            try:
                size = self._fill(data, url, start, count)
                return bytes(data), size
            except HTTPError as error:
                error.close()
                if error.code in (404, 410):
                    return None
                if error.code == 416 and (end := re.fullmatch(r"bytes \*/(\d{1,18})", error.headers.get("Content-Range", ""))):
                    return b"", int(end[1])
                problem, hint = f"the server answers {error.code} {error.reason}"[:200], HINTS.get(error.code)
                if error.code not in BUSY:
                    raise Day0Error(problem, url, hint=hint) from None
                pause = _seconds(error.headers.get("Retry-After"))
            except (Dropped, OSError, HTTPException) as error:
                reason = getattr(error, "reason", None) or str(error) or type(error).__name__
                problem, hint, pause = f"the connection fails: {reason}"[:200], "check the address and the network", 0.0
            if again < TRIES - 1:
                time.sleep(max(pause, PAUSE * 2**again))
        raise Day0Error(f"{problem}, {TRIES} times", url, hint=hint)

    def _fill(self, data: bytearray, url: str, start: int, count: int) -> int:
        """Append what is missing of a piece; the size of the file. What has arrived stays when the connection drops."""
        begin = start + len(data)
        deadline = time.monotonic() + SILENCE + count / SLOWEST
        with self._open(url, f"bytes={begin}-{start + count - 1}") as response:
            first, size = _place(response, url, begin, start + count)
            skip, wanted = begin - first, min(start + count, size) - begin
            while wanted > 0:
                if time.monotonic() > deadline:
                    raise Day0Error(f"slower than {SLOWEST >> 10} KiB/s", url, hint="try again later")
                block = response.read1(min(BLOCK, skip + wanted))
                if not block:
                    raise Dropped(f"it ends {wanted} bytes early")
                with self._lock:
                    self.bytes_read += len(block)
                kept = block[skip:]
                skip = max(0, skip - len(block))
                data += kept
                wanted -= len(kept)
        return size

    def _open(self, url: str, wanted: str) -> HTTPResponse:
        place = url
        for _ in range(HOPS + 1):
            headers = {"Range": wanted, "Accept-Encoding": "identity", "User-Agent": f"day0/{day0.__version__}"}
            if urlsplit(place)[:2] == urlsplit(url)[:2]:
                headers |= self.headers
            try:
                return self._opener.open(Request(place, headers=headers), timeout=SILENCE)  # type: ignore[no-any-return]
            except HTTPError as error:
                location = error.headers.get("Location")
                if error.code not in MOVED or not location:
                    raise
                error.close()
                place = _next(place, location, url)
        raise Day0Error(f"more than {HOPS} redirects", url, hint="check the address")


def _place(response: HTTPResponse, url: str, begin: int, end: int) -> tuple[int, int]:
    """Where the body begins in the file, and the size of the file; Day0Error when the answer contradicts the question or itself."""
    length, said = response.headers.get("Content-Length"), response.headers.get("Content-Range") or ""
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise Day0Error("the server compresses what must be read by ranges", url, hint="give an address that serves files as they are")
    if response.status == 200:  # the whole file: read as far as it is wanted, then dropped
        if not (length or "").isdecimal():
            raise Day0Error("the server ignores ranges and does not say how long the file is", url, hint="download the model first")
        return 0, int(length or 0)
    found = re.fullmatch(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})", said)
    if response.status != 206 or not found:
        raise Day0Error(f"asked for a range, the server answers {response.status} with range {said[:60]!r}", url)
    first, last, size = (int(group) for group in found.groups())
    if first != begin or last != min(end, size) - 1:
        raise Day0Error(f"asked for bytes {begin} to {end - 1}, the server sends {said[:60]!r}", url, hint="download the model first")
    if length is not None and length != str(last - first + 1):
        raise Day0Error(f"the server sends {length[:20]} bytes and calls them {said[:60]!r}", url, hint="download the model first")
    return first, size


def _next(place: str, location: str, url: str) -> str:
    target = urljoin(place, quote(location, safe="%/:=&?~#+!$,;'@()*[]"))
    kept = {"https": ("https",), "http": ("http", "https")}[urlsplit(place).scheme]
    if urlsplit(target).scheme not in kept:
        raise Day0Error(f"redirected to {target[:100]}, which is not {' or '.join(kept)}", url, hint="check the address")
    return target


def _seconds(text: str | None) -> float:
    """What a busy server asks for, within reason."""
    return min(PATIENCE, float(text)) if text and text.isdecimal() else 0.0
