"""A web server in this process: a folder of files, and the part of a hub's interface that a reader of models asks for.

Shapes: huggingface.co/docs/hub/api, "GET /api/models/{repo_id}/revision/{revision}", and `/{repo_id}/resolve/{revision}/{file}`.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPOSITORY = "tiny-lab/tiny-model"


class Web(ThreadingHTTPServer):
    """Serves `folder` as `/files/…` and as the hub's REPOSITORY. `fault` may answer a request itself: it returns True when it has."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.folder = folder
        self.fault: Callable[[Handler], bool] = lambda handler: False
        self.ranges = True
        self.asked: list[tuple[str, dict[str, str]]] = []  # path, headers
        self.sent = 0  # bytes of bodies

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader that hangs up is not worth a word."""


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Web

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        self.server.asked.append((self.path, {key.lower(): value for key, value in self.headers.items()}))
        if self.server.fault(self):
            return
        if re.fullmatch(rf"/api/models/{REPOSITORY}(/revision/(main|{COMMIT}))?(\?.*)?", self.path):
            self.answer(200, json.dumps(self.model()).encode(), {"Content-Type": "application/json"})
        elif file := self.file():
            self.send_file(file)
        else:
            self.answer(404, b"no such thing")

    def model(self) -> dict[str, Any]:
        """The hub's description of the model."""
        files = [path for path in sorted(self.server.folder.iterdir()) if path.is_file()]
        siblings = [{"rfilename": path.name, "size": path.stat().st_size, "blobId": "0"} for path in files]
        return {"_id": "1", "id": REPOSITORY, "modelId": REPOSITORY, "sha": COMMIT, "private": False, "tags": [], "siblings": siblings}

    def file(self) -> Path | None:
        """The file that is asked for."""
        match = re.fullmatch(rf"/(?:files|{REPOSITORY}/resolve/{COMMIT})/([\w.-]+)", self.path)
        path = self.server.folder / match[1] if match else None
        return path if path and path.is_file() else None

    def wanted(self, size: int) -> tuple[int, int] | None:
        """First byte and end of the range that is asked for."""
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", "")) if self.server.ranges else None
        return (int(match[1]), min(int(match[2]) + 1, size)) if match else None

    def send_file(self, path: Path) -> None:
        """A piece or the whole, in blocks: the reader may have enough before the end."""
        size = path.stat().st_size
        piece = self.wanted(size)
        start, end = piece or (0, size)
        if piece and start >= size:
            self.answer(416, b"", {"Content-Range": f"bytes */{size}"})
            return
        self.send_response(206 if piece else 200)
        self.send_header("Content-Length", str(end - start))
        if piece:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
        self.end_headers()
        with path.open("rb") as file:
            file.seek(start)
            while start < end:
                block = file.read(min(1 << 16, end - start))
                self.wfile.write(block)
                self.server.sent += len(block)
                start += len(block)

    def answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> bool:
        """A whole answer; true."""
        self.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(body)
        return True


@contextmanager
def web(folder: Path) -> Iterator[Web]:
    """A server that runs until the block ends."""
    server = Web(folder)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
