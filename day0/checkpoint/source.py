"""Where a release lies: a folder of this machine, or an address whose files are read by ranges."""

import errno
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, Protocol

from day0.spec.errors import Day0Error
from day0.spec.progress import Progress, silent
from day0.spec.record import record

ADDRESS = re.compile(r"(hf|https?):/+(.*)")  # pathlib folds the two slashes of an address into one

COMMIT = re.compile(r"[0-9a-f]{40}")


@record
class Fetched:
    """What was read of a release at an address."""

    kind: Literal["hub", "https"]  #: how it was read
    url: str  #: of the release
    revision: str | None  #: commit of a hub's release
    bytes_read: int  #: that came over the network, without headers of the protocol
    bytes_total: int  #: of all files that are known to be there


class Source(Protocol):
    """The files of one release, read a piece at a time."""

    @property
    def where(self) -> str:
        """Absolute path, or address with the revision that is read."""

    @property
    def name(self) -> str:
        """What the release is called: the last part of its address."""

    @property
    def folder(self) -> Path:
        """The folder that holds the weights; Day0Error where they are not on this machine."""

    @property
    def fetched(self) -> Fetched | None:
        """What was read so far; None for a folder of this machine."""

    def path(self, file: str) -> str:
        """Where one of the files is, for messages and reports."""

    def names(self) -> list[str]:
        """Files beside config.json, in alphabetical order; of an address that lists nothing, those that were asked for and are there."""

    def present(self, files: Iterable[str]) -> list[str]:
        """Those of some weight files that are there, in their order. Their heads are wanted next: a remote source fetches them at once."""

    def size(self, file: str) -> int | None:
        """Bytes of a file; None where there is no regular file of that name."""

    def read(self, file: str, start: int, count: int) -> bytes:
        """Bytes from `start` on, fewer where the file ends; OSError or Day0Error when they cannot be read."""


class Folder:
    """A folder of this machine."""

    fetched = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def where(self) -> str:
        return str(self.folder.resolve())

    @property
    def name(self) -> str:
        return _called(self.folder.resolve())

    def path(self, file: str) -> str:
        return str((self.folder / file).absolute())

    def names(self) -> list[str]:
        return sorted(os.listdir(self.folder))

    def present(self, files: Iterable[str]) -> list[str]:
        return [file for file in files if self._stat(file)]

    def size(self, file: str) -> int | None:
        found = self._stat(file)
        return found.st_size if found and stat.S_ISREG(found.st_mode) else None  # known before opening: a pipe would wait for its writer

    def _stat(self, file: str) -> os.stat_result | None:
        """None where nothing has that name, or could have it: names come from an index that may say anything."""
        try:
            return os.stat(self.folder / file)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP):
                return None
            raise

    def read(self, file: str, start: int, count: int) -> bytes:
        handle = os.open(self.folder / file, os.O_RDONLY)
        try:
            return os.pread(handle, count, start)
        finally:
            os.close(handle)


def whole(source: Source, file: str, limit: int) -> bytes | None:
    """A small file; None when there is none. ValueError when it is larger than `limit` bytes."""
    size = source.size(file)
    if size is None:
        return None
    if size > limit:
        raise ValueError(f"larger than {limit >> 20} MiB")
    return source.read(file, 0, size)


def at(place: Source | Path | str, progress: Progress = silent) -> Source:
    """The source at a path or an address. Day0Error when there is no such folder, or the address cannot be read."""
    if not isinstance(place, Path | str):
        return place
    if address(place):
        from day0.checkpoint.remote import connect

        return connect(address(place), progress)
    folder = Path(place)
    if not folder.is_dir():
        problem = "is a file, not a folder" if folder.exists() else "there is no such folder"
        raise Day0Error(problem, folder, hint="give the folder that holds config.json and the weights")
    return Folder(folder)


def here(place: Path | str) -> Path:
    """The folder at a path, for those who read weights; Day0Error for an address, with what to do."""
    found = address(place)
    if not found:
        return Path(place)
    model, _, revision = found.removeprefix("hf://").partition("@")
    command = f"hf download {model}{revision and f' --revision {revision}'} --local-dir {named(place)}"
    download = f"run `{command}`" if found.startswith("hf:") else "download it"
    raise Day0Error("its weights are not on this machine", found, hint=f"{download}, then inspect that folder")


def named(place: Path | str) -> str:
    """What a release is called, without looking at it: the last part of its path, or of its address without the revision."""
    found = re.sub(r"/(resolve|raw)/[^/]+$", "", address(place))
    return found.partition("@")[0].rpartition("/")[2] if found else _called(Path(place).resolve())


def _called(folder: Path) -> str:
    """Its name; in a cache of the hub, models--OWNER--NAME/snapshots/COMMIT, that of the model."""
    cache = folder.parent.parent.name
    return cache.rpartition("--")[2] if folder.parent.name == "snapshots" and cache.startswith("models--") else folder.name


def holds(place: Path | str, file: str) -> bool:
    """Whether a file on record is of the release at `place`. A branch or tag cannot be told from a commit of it without asking: it may be."""
    found, recorded = address(place), file.rpartition("/")[0]
    if not found:
        return not address(file) and Path(file).parent.resolve() == Path(place).resolve()
    asked, had = found.partition("@"), recorded.partition("@")
    return asked[0] == had[0] and (not COMMIT.fullmatch(asked[2]) or asked[2] == had[2])


def address(place: Path | str) -> str:
    """The address that a word of a command line is, without a slash at its end; empty for a path."""
    match = ADDRESS.fullmatch(str(place))
    return f"{match[1]}://{match[2].rstrip('/')}" if match else ""
