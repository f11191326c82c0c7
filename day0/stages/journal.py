"""What a long comparison has measured so far, on disk as it goes: a run that was killed goes on from there and ends with the same report."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from day0.spec import evidence as of_layers
from day0.spec import whole_evidence as of_model
from day0.spec.errors import Day0Error
from day0.spec.evidence import Errors, Evidence

IDENTITY, LINES = "identity.json", "measured.jsonl"
KINDS = vars(of_layers) | vars(of_model)  # evidence by the names of its classes


class Journal:
    """A folder of its own; without one nothing is kept. What was measured for something else is thrown away."""

    def __init__(self, folder: Path | None, identity: Any = None) -> None:
        self._folder = folder
        self._kept: dict[str, Any] = {}
        if folder is None:
            return
        name = hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()
        try:
            if not (folder / IDENTITY).is_file() or (folder / IDENTITY).read_text() != name:
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
                (folder / IDENTITY).write_text(name)
        except OSError as error:
            raise Day0Error(f"cannot keep what is measured: {error.strerror}", folder) from None
        self._kept = dict(_lines(folder / LINES))

    @property
    def resumed(self) -> bool:
        """Whether an earlier run left anything."""
        return bool(self._kept)

    def value(self, key: str, compute: Callable[[], Any]) -> Any:
        """Plain data: from an earlier run, else computed and kept."""
        if key not in self._kept:
            self._keep(key, compute())
        return self._kept[key]

    def evidence(self, key: str, compute: Callable[[], Iterable[Evidence]], again: bool = False) -> list[Evidence]:
        """The same for evidence; `again`: compute it whether it is there or not."""
        if again:
            self._kept.pop(key, None)
        return [_read(row) for row in self.value(key, lambda: [_written(one) for one in compute()])]

    def save(self, name: str, place: int, tensors: dict[str, Tensor], notes: Any = None) -> None:
        """What is needed to go on after `place`, in place of what was saved under this name before."""
        if self._folder is None:
            return
        from safetensors.torch import save_file

        beside = self._folder / f".{name}.{os.getpid()}"
        kept = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
        save_file(kept, beside, metadata={"place": str(place), "notes": json.dumps(notes)})
        os.replace(beside, self._folder / f"{name}.safetensors")

    def saved(self, name: str) -> tuple[int, dict[str, Tensor], Any] | None:
        """(place, tensors, notes) that were saved last."""
        if self._folder is None or not (self._folder / f"{name}.safetensors").is_file():
            return None
        from safetensors import safe_open

        with safe_open(self._folder / f"{name}.safetensors", framework="pt") as file:
            about = file.metadata()
            return int(about["place"]), {key: file.get_tensor(key) for key in file.keys()}, json.loads(about["notes"])  # noqa: SIM118

    def close(self) -> None:
        """The report is made: nothing needs to be kept."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _keep(self, key: str, value: Any) -> None:
        text = json.dumps({"key": key, "value": value})
        self._kept[key] = json.loads(text)["value"]
        if self._folder is not None:
            with open(self._folder / LINES, "a", encoding="utf-8") as file:
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())


def _lines(path: Path) -> Iterable[tuple[str, Any]]:
    """Whole lines only: the last one may have been cut off, and is ended so that the next one stands alone."""
    if not path.is_file():
        return
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        os.truncate(path, len(whole))
    for line in whole.decode().splitlines():
        entry = json.loads(line)
        yield entry["key"], entry["value"]


def _written(evidence: Evidence) -> dict[str, Any]:
    return {"kind": type(evidence).__name__, **asdict(evidence)}


def _read(row: dict[str, Any]) -> Evidence:
    fields = _tupled(row)
    kind = fields.pop("kind")
    for name in ("errors", "scores"):
        if name in fields:
            fields[name] = Errors(**_tupled(fields[name]))
    made: Evidence = KINDS[kind](**fields)
    return made


def _tupled(row: dict[str, Any]) -> dict[str, Any]:
    """JSON has no tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
