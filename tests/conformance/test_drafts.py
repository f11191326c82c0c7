"""No file is left as `day0 new` drafted it: where a person has to say something, a draft says "fill:"."""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from day0.spec.registry import Registry, backends, blocks, checks, families, formats, kernels, ops, parts

REGISTRIES = {registry.package: registry for registry in (backends(), blocks(), checks(), families(), formats(), kernels(), ops(), parts())}
OPEN = re.compile(r"\bfill: (.*)|NotImplementedError")


def unfilled(registry: Registry) -> Iterator[str]:
    """Places that are still to be filled, in words."""
    for folder in importlib.import_module(registry.package).__path__:
        for name in registry.names():
            path = Path(folder) / f"{name}.py"
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines() if path.is_file() else (), 1):
                if OPEN.search(line):
                    yield f"{registry.package}.{name}, line {number}: {line.strip()}"


@pytest.mark.parametrize("package", REGISTRIES)
def test_every_draft_is_filled(package: str) -> None:
    assert [*unfilled(REGISTRIES[package])] == []
