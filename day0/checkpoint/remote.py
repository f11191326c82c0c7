"""A release at an address: configuration, index, tokenizer and the heads of shards are read, no weight is.

`hf://owner/name[@revision]` through huggingface_hub, which knows the hub's address (HF_ENDPOINT) and the token (HF_TOKEN);
`https://…`, the address of a folder, where files are known by their usual names and by the index.
"""

import os
import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urlsplit

from day0.checkpoint import folder, headers, index, tokenizer
from day0.checkpoint.ranges import HINTS, Ranges
from day0.checkpoint.source import Fetched, here, named
from day0.spec.errors import Day0Error
from day0.spec.progress import Progress

FIRST = 64 << 10  # bytes that are read of a file at first: most heads are in them
THREADS = 8  # requests at once
USUAL = ("config.json", index.NAME, "model.safetensors", *folder.SMALL, *tokenizer.OTHER, "chat_template.json", "model.gguf", "pytorch_model.bin")
HUB = re.compile(r"hf://(?:models/)?((?:[\w.-]+/)?[\w.-]+)(?:@([^@?#]+))?")


class Remote:
    """Files of an address. All reading here begins at the start of a file: what has been read of each is kept, and only more is fetched."""

    def __init__(
        self, kind: Literal["hub", "https"], where: str, name: str, ranges: Ranges, url: Callable[[str], str], progress: Progress,
        sizes: dict[str, int] | None = None, revision: str | None = None,
    ) -> None:  # fmt: skip
        self.where, self.name = where, name
        self._kind, self._revision, self._ranges, self._url, self._progress = kind, revision, ranges, url, progress
        self._listed = sizes is not None
        self._sizes: dict[str, int | None] = dict(sizes or {})  # None: asked for, and not there
        self._read: dict[str, bytes] = {}  # what has been read of a file, from its start

    @property
    def folder(self) -> Path:
        return here(self.where)

    @property
    def fetched(self) -> Fetched:
        total = sum(size or 0 for size in self._sizes.values())
        return Fetched(
            kind=self._kind, url=self.where, revision=self._revision, bytes_read=self._ranges.bytes_read, bytes_total=total
        )

    def path(self, file: str) -> str:
        return f"{self.where}/{file}"

    def names(self) -> list[str]:
        known = self._sizes if self._listed else self.present(USUAL)
        return sorted(name for name in known if "/" not in name)

    def present(self, files: Iterable[str]) -> list[str]:
        files = list(files)
        pool = ThreadPoolExecutor(THREADS)
        try:
            waiting = [pool.submit(self._head, file) for file in files]
            for done, future in enumerate(as_completed(waiting), 1):
                future.result()
                self._progress("reading heads of files", done, len(files))
        finally:
            pool.shutdown(cancel_futures=True)
        return [file for file in files if self.size(file) is not None]

    def size(self, file: str) -> int | None:
        if file not in self._sizes and not self._listed:
            self._fetch(file, 0, FIRST)
        return self._sizes.get(file)

    def read(self, file: str, start: int, count: int) -> bytes:
        end = min(start + count, self.size(file) or 0)
        held = len(self._read.get(file, b""))
        if held < end:
            self._fetch(file, held, end - held)
        return self._read.get(file, b"")[start:end]

    def _head(self, file: str) -> None:
        """Read a weight file as far as its header goes; what is wrong with it is found by those who parse it."""
        size = self.size(file)
        if size is not None and file.endswith(".safetensors"):
            length = int.from_bytes(self.read(file, 0, min(FIRST, size))[:8], "little")
            if length <= min(headers.LIMIT, size - 8):
                self.read(file, 8, length)

    def _fetch(self, file: str, start: int, count: int) -> None:
        found = self._ranges.piece(self._url(file), start, count)
        data, size = found or (b"", None)
        known = self._sizes.get(file, size)
        if size != known:
            problem = "is not there" if size is None else f"has {size} bytes"
            raise Day0Error(f"{problem}, {known} were announced", self.path(file), hint="it may have changed meanwhile: try again")
        self._sizes[file] = size
        self._read[file] = self._read.get(file, b"") + data


def connect(address: str, progress: Progress) -> Remote:
    """The release at an address. Day0Error when there is none, or it may not be read."""
    if address.startswith("hf:"):
        return _hub(address, progress)
    parts = urlsplit(address)
    if not parts.hostname or parts.query or parts.fragment or parts.username or parts.password:
        raise Day0Error("not the address of a folder", parts.hostname, hint="give https://host/folder, without credentials or a query")
    return Remote("https", address, named(address), Ranges(), lambda file: f"{address}/{quote(file)}", progress)


def _hub(address: str, progress: Progress) -> Remote:
    match = HUB.fullmatch(address)
    if not match:
        raise Day0Error("not a model of a hub", address, hint="give hf://owner/name or hf://owner/name@revision")
    try:
        from huggingface_hub import HfApi, hf_hub_url
        from huggingface_hub.utils import build_hf_headers
    except ImportError:
        raise Day0Error("reading from a hub needs huggingface_hub", address, hint="pip install 'day0[hub]'") from None
    repository, revision = match[1], match[2]
    endpoint = os.environ.get("HF_ENDPOINT") or None
    try:
        info = HfApi(endpoint=endpoint).model_info(repository, revision=revision, files_metadata=True, timeout=30)
        commit = info.sha or revision or "main"
        sizes = {file.rfilename: file.size for file in info.siblings or () if file.rfilename.isprintable() and type(file.size) is int}
    except Exception as error:  # its transport differs from version to version, and so do its errors
        raise _refused(error, address) from None
    where = f"hf://{repository}@{commit}"
    ranges = Ranges({key.title(): value for key, value in build_hf_headers(library_name="day0").items() if key == "authorization"})
    return Remote(
        "hub", where, named(where), ranges, lambda file: hf_hub_url(repository, file, revision=commit, endpoint=endpoint), progress, sizes, commit
    )  # fmt: skip


def _refused(error: Any, address: str) -> Day0Error:
    """What the hub's client says, in our words where we have some."""
    code = getattr(getattr(error, "response", None), "status_code", None)
    if code in (401, 404):
        problem, hint = "the hub shows no such model or revision", "check the name; if it is private or gated, set HF_TOKEN"
        return Day0Error(problem, address, hint=hint)
    said = f"the hub answers {code}" if code else f"the hub cannot be asked: {type(error).__name__}: {' '.join(str(error).split())}"[:300]
    return Day0Error(said, address, hint=HINTS.get(code or 0, "check the network, and HF_ENDPOINT if you have set it"))
