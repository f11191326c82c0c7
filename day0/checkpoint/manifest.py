"""Digests of weight files: several at once, kept as they come so that an interrupted run goes on, and compared with what the release says."""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from day0.spec.progress import Progress, silent
from day0.spec.record import record

PIECE = 4 << 20  # bytes hashed at once
WORKERS = 4  # files read at the same time
LIMIT = 16 << 20  # bytes of a manifest that is read at all
NAMES = ("SHA256SUMS", "sha256sums.txt", "SHA256SUMS.txt", "checksums.sha256", "manifest.sha256")
LINE = re.compile(r"([0-9a-fA-F]{64}) [ *](?:\./)?(\S.*)")


@record
class Digests:
    """What weight files hash to, and what the release says that they do."""

    found: Mapping[str, str]  #: file → sha256
    manifest: str | None  #: name of the file that says so; None when there is none
    expected: Mapping[str, str]  #: file → sha256 by the manifest


def digests(folder: Path, files: Iterable[str], kept: Path | None = None, progress: Progress = silent) -> Digests:
    """Of weight files, with the manifest of the folder. OSError when a file cannot be read.

    `kept` is a file in which each digest is written as soon as it is there: one that an earlier run found counts as long as path, size
    and time of change are the same.
    """
    names = list(files)
    sizes, stamps = {name: (folder / name).stat().st_size for name in names}, {name: _stamp(folder / name) for name in names}
    before = _load(kept) if kept else {}
    found = {name: before[stamps[name]] for name in names if stamps[name] in before}
    with ThreadPoolExecutor(WORKERS) as pool:
        waiting = {pool.submit(_digest, folder / name): name for name in names if name not in found}
        try:
            for future in as_completed(waiting):
                name = waiting[future]
                found[name] = future.result()
                if kept:
                    _keep(kept, stamps[name], found[name])
                progress("hashing weight files", sum(sizes[done] for done in found), sum(sizes.values()))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    manifest, expected = _stated(folder)
    return Digests(found={name: found[name] for name in names}, manifest=manifest, expected=expected)


def _stated(folder: Path) -> tuple[str | None, dict[str, str]]:
    """(file, name → sha256) of the manifest in a folder, as `sha256sum` writes it."""
    for name in NAMES:
        path = folder / name
        if path.is_file() and path.stat().st_size <= LIMIT:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            return name, {match[2]: match[1].lower() for match in map(LINE.fullmatch, lines) if match}
    return None, {}


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _stamp(path: Path) -> str:
    """What changes when the file does."""
    stat = path.stat()
    return f"{path.absolute()}:{stat.st_size}:{stat.st_mtime_ns}"


def _keep(kept: Path, stamp: str, digest: str) -> None:
    """One line a digest, and an empty one before it: what an interruption cut off then spoils no more than itself."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    with kept.open("a", encoding="utf-8") as file:
        file.write(f"\n{json.dumps([stamp, digest])}\n")
        file.flush()
        os.fsync(file.fileno())


def _load(kept: Path) -> dict[str, str]:
    found = {}
    for line in kept.read_text(encoding="utf-8", errors="replace").splitlines() if kept.is_file() else ():
        try:
            stamp, digest = json.loads(line)
        except (ValueError, TypeError):
            continue
        if isinstance(stamp, str) and isinstance(digest, str):
            found[stamp] = digest
    return found
