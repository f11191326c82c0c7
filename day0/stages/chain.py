"""The reports of one model on one target: where they lie, what each was made from, and whether that still holds."""

import hashlib
import json
import re
import shlex
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import yaml

from day0.checkpoint.source import address, holds, named
from day0.spec.errors import Day0Error
from day0.spec.reports import CHAIN
from day0.spec.reports.base import Input, Loader, Report, file_input, replace

R = TypeVar("R", bound=Report)
FILES = frozenset(f"{stage}.yaml" for stage in CHAIN)
THIS_MACHINE = "this-machine"
WORKERS = 4  # files that are compared at the same time
POINTER = "latest.json"  # in the root: which model and target the last report was written for
PRESENTATION = frozenset({"--json", "--yaml"})  # options that change no report


class Chain:
    """`<root>/<model>/<target>/<stage>.yaml`. A stage reads its predecessors from here and writes its own report here.

    What was read through one `Chain` is recorded in what is written through it.
    """

    def __init__(self, root: Path, model: str, target: str = THIS_MACHINE, released: Path | None = None) -> None:
        self.root, self.model, self.target = root, model, target
        self.released = released  # folder that the caller named: reports about another one are refused
        self.inputs: dict[str, Input] = {}  # path → predecessor read so far
        self._sound: set[Path] = set()  # reports whose inputs were compared with the disk

    @classmethod
    def of(cls, root: Path, released: Path, target: str | None = None) -> "Chain":
        """The chain of the model in the folder `released`, without a target the last one of this model or this machine."""
        name, latest = model_name(released), _latest(root)
        if target is None:
            target = latest["target"] if latest.get("model") == name else THIS_MACHINE
        return cls(root, name, slug(target), released)

    @classmethod
    def find(cls, root: Path, released: Path | None = None, target: str | None = None) -> "Chain":
        """The chain of `released`, or without it that of the last report; `target` is a machine's name."""
        if released is not None:
            return cls.of(root, released, target)
        latest = _latest(root)
        if not latest:
            raise Day0Error("no model has been inspected", root, hint="run `day0 inspect MODEL` first")
        return cls(root, latest["model"], slug(target) if target else latest["target"])

    @property
    def folder(self) -> Path:
        """Where the reports lie."""
        return self.root / self.model / self.target

    @property
    def kept(self) -> Path:
        """Where what was read of the release is kept, for all targets."""
        return self.folder.parent

    def path(self, kind: type[Report]) -> Path:
        """File of a stage's report."""
        return self.folder / f"{kind.STAGE}.yaml"

    def has(self, kind: type[Report]) -> bool:
        """Whether the stage has left a report (which `read` may still refuse)."""
        return self.path(kind).is_file()

    def read(self, kind: type[R]) -> R:
        """The stage's report; refused when something it was made from has changed, or when it is about another model."""
        path = self.path(kind)
        if path.name == f"{CHAIN[0]}.yaml" and not path.is_file():
            self._borrow(path)
        found = kind.read(path)
        self._require_sound(path, found.to_dict())
        entry = file_input(path)
        self.inputs[entry.path] = entry
        return found

    def write(self, report: Report) -> Path:
        """Record the command and what was read, write the report, and remember this chain as the last one."""
        known = {entry.path for entry in report.provenance.inputs}
        report.provenance.inputs += [entry for path, entry in self.inputs.items() if path not in known]
        report.provenance.command = report.provenance.command or _command()
        path = self.path(type(report))
        if not self._same(path, report):
            report.write(path)
            self._spread(path)
        self._sound.discard(path)
        replace(self.root / POINTER, (json.dumps({"model": self.model, "target": self.target}) + "\n").encode())
        return path

    def lay(self, name: str, text: str) -> Path:
        """Write a file that is no report beside the reports."""
        path = self.folder / name
        replace(path, text.encode())
        return path

    def _same(self, path: Path, report: Report) -> bool:
        """Whether the file says the same already, so that what was made from it stays valid."""
        if not path.is_file():
            return False
        if path.read_bytes() == report.to_yaml().encode():
            return True
        old, new = _load(path), report.to_dict()
        for told in (old, new):
            told.get("provenance", {}).pop("command", None)
            (told.get("source") or {}).pop("bytes_read", None)  # a connection that dropped makes it more
        return old == new

    def _spread(self, path: Path) -> None:
        """What a model is does not depend on the machine: every target that has an inspect report gets the new one."""
        for other in self.folder.parent.glob(f"*/{CHAIN[0]}.yaml"):
            if path.name == other.name and path != other:
                replace(other, path.read_bytes())

    def _borrow(self, path: Path) -> None:
        """Take the inspect report of another target."""
        others = sorted(self.folder.parent.glob(f"*/{path.name}"))
        if others:
            replace(path, others[0].read_bytes())

    def _require_sound(self, path: Path, data: Mapping[str, Any]) -> None:
        """Compare every recorded input with the disk, through all predecessors."""
        if path in self._sound:
            return
        provenance = data.get("provenance") or {}
        mend = f"run `{shlex.join(provenance.get('command') or [])}` again"
        entries = [Input.model_validate(entry) for entry in provenance.get("inputs") or []]
        released = [entry for entry in entries if Path(entry.path).name not in FILES]
        for entry in entries:
            if Path(entry.path).name in FILES:
                self._require_predecessor(path, entry, mend)
        with ThreadPoolExecutor(WORKERS) as pool:
            for entry, same in zip(released, pool.map(_unchanged, released), strict=True):
                if not same:
                    raise Day0Error(f"stale: {entry.path} has changed since this report was made", path, hint=mend)
        if self.released and path.name == f"{CHAIN[0]}.yaml" and released and not any(holds(self.released, entry.path) for entry in released):
            about = released[0].path.rpartition("/")[0]
            again = shlex.join(["day0", CHAIN[0], address(self.released) or str(self.released)])
            raise Day0Error(f"belongs to another model: it is about {about}", path, hint=f"run `{again}`")
        self._sound.add(path)

    def _require_predecessor(self, path: Path, entry: Input, mend: str) -> None:
        predecessor = self.folder / Path(entry.path).name
        if not predecessor.is_file():
            raise Day0Error(f"made from {predecessor.name}, which is not there any more", path, hint=mend)
        if file_input(predecessor).sha256 != entry.sha256:
            if Path(entry.path).parent.parent.name != self.model:
                again = shlex.join(["day0", path.stem, *([str(self.released)] if self.released else [])])
                raise Day0Error(f"belongs to another model: it was made from {entry.path}", path, hint=f"run `{again}`")
            raise Day0Error(f"stale: {predecessor} has changed since this report was made", path, hint=mend)
        self._require_sound(predecessor, _load(predecessor))


def slug(name: str) -> str:
    """A name as a folder: of a profile given as a file, the file's own name."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", Path(name).name.removesuffix(".yaml")).strip(".-") or "unnamed"


def model_name(released: Path) -> str:
    """Name of a model: that of its folder, or of its address."""
    return slug(named(released))


def _command() -> list[str]:
    """The command line of this process, as a person would type it again."""
    return ["day0", *(word for word in sys.argv[1:] if word not in PRESENTATION)]


def _unchanged(entry: Input) -> bool:
    """Whether a file of the release still has the size and the digest on record (of its header, for a weight shard).

    What lies at an address is compared by the stage that reads it again.
    """
    if address(entry.path):
        return True
    path = Path(entry.path)
    if not path.is_file() or path.stat().st_size != entry.bytes:
        return False
    if path.suffix != ".safetensors":
        return file_input(path).sha256 == entry.sha256
    with path.open("rb") as file:
        length = file.read(8)
        header = file.read(min(int.from_bytes(length, "little"), entry.bytes))
    return hashlib.sha256(length + header).hexdigest() == entry.sha256


def _load(path: Path) -> dict[str, Any]:
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), Loader=Loader)
    except (yaml.YAMLError, UnicodeDecodeError):
        return {}
    return data if isinstance(data, dict) else {}


def _latest(root: Path) -> dict[str, str]:
    """Model and target of the last report; empty when there is none."""
    try:
        data = json.loads((root / POINTER).read_text(encoding="utf-8"))
        return {"model": slug(data["model"]), "target": slug(data["target"])}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
