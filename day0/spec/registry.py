"""Registration is the file name: a registry walks a package and maps each file to what it exports."""

import importlib
import os
import pkgutil
from collections.abc import Iterator
from functools import cache
from typing import Any

from day0.spec.errors import Day0Error


class Registry:
    """The files of one package, each exporting one object under one name (`FAMILY`, `OP`, …).

    A file whose optional dependency is missing is not an error: `missing` holds its name and the reason.
    """

    def __init__(self, package: str, export: str) -> None:
        self.package, self.export = package, export
        self._loaded: dict[str, Any] = {}
        self.missing: dict[str, str] = {}
        self._listed: tuple[list[tuple[str, int | None]], dict[str, None]] = [], {}

    def names(self) -> list[str]:
        """File names without their ending, in alphabetical order."""
        return list(self._files())

    def __contains__(self, name: str) -> bool:
        return name in self._files()

    def _files(self) -> dict[str, None]:
        """Listed again only where a folder has changed: names are asked for thousands of times."""
        folders = importlib.import_module(self.package).__path__
        state = [(folder, os.stat(folder).st_mtime_ns if os.path.isdir(folder) else None) for folder in folders]
        if state != self._listed[0]:
            names = sorted(m.name for m in pkgutil.iter_modules(folders) if not m.ispkg)
            self._listed = state, dict.fromkeys(names)
        return self._listed[1]

    def load(self, name: str) -> Any | None:
        """What the file exports, or None when a dependency of it is not installed."""
        if name not in self._loaded and name not in self.missing:
            try:
                self._loaded[name] = getattr(importlib.import_module(f"{self.package}.{name}"), self.export)
            except ModuleNotFoundError as error:
                if (error.name or "").startswith("day0"):
                    raise
                self.missing[name] = f"needs {error.name}, which is not installed"
        return self._loaded.get(name)

    def get(self, name: str) -> Any:
        """What the file `name` exports; an error that lists what there is when it is not there."""
        if name in self._loaded:
            return self._loaded[name]
        if name not in self:
            raise Day0Error(f"no {self.export.lower()} named {name!r}", hint=f"known: {', '.join(self.names())}")
        found = self.load(name)
        if found is None:
            raise Day0Error(f"{self.export.lower()} {name!r} {self.missing[name]}", hint="install the extra that carries it")
        return found

    def items(self, *starts: str) -> Iterator[tuple[str, Any]]:
        """Every (name, object) whose dependencies are installed; with `starts`, of files whose names begin so, and no others are loaded."""
        for name in self.names():
            found = self.load(name) if name.startswith(starts or "") else None
            if found is not None:
                yield name, found


@cache
def registry(package: str, export: str) -> Registry:
    """The one registry of a package; reading the same folder twice is never needed."""
    return Registry(package, export)


def families() -> Registry:
    return registry("day0.families", "FAMILY")


def parts() -> Registry:
    return registry("day0.parts", "PART")


def blocks() -> Registry:
    return registry("day0.blocks", "BLOCK")


def formats() -> Registry:
    return registry("day0.formats", "FORMAT")


def ops() -> Registry:
    return registry("day0.ops", "OP")


def kernels() -> Registry:
    return registry("day0.kernels", "IMPL")


def backends() -> Registry:
    return registry("day0.backends", "BACKEND")


def checks() -> Registry:
    return registry("day0.checks", "CHECK")


def preprocessors() -> Registry:
    return registry("day0.preprocessors", "PREPROCESSOR")
