"""Targets by name: a manifest that comes with day0, a user's own file, or the one that describes a machine."""

import re
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from day0.spec.errors import Day0Error
from day0.spec.machine import Machine
from day0.spec.reports.base import Loader, Strict
from day0.spec.target import Dispatcher, Target

LIMIT = 1 << 20  # bytes of a manifest that are read at all
S = TypeVar("S", bound=Strict)


def target_names() -> list[str]:
    """Names of the manifests that come with day0."""
    files = (resources.files("day0.templates") / "targets").iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


def find_target(name: str) -> Target:
    """A manifest by its name, or from a YAML file such as `day0 target` writes."""
    if name.endswith((".yaml", ".yml")):
        return complete(read(Path(name), Target)).model_copy(update={"path": str(Path(name).absolute())})
    plain = name.lower().replace("-", "_")
    if plain not in target_names():
        raise Day0Error(f"no target named {name!r}", hint=f"known: {', '.join(target_names())}; or a YAML file")
    return named_target(plain)


def is_target(name: str) -> bool:
    """Whether a name means a manifest: one that comes with day0, or a file that is not a machine profile."""
    if not name.endswith((".yaml", ".yml")):
        return name.lower().replace("-", "_") in target_names()
    path = Path(name)
    return path.is_file() and path.stat().st_size <= LIMIT and b"marketing_gb:" not in path.read_bytes()


@cache
def named_target(name: str) -> Target:
    """A manifest that comes with day0."""
    return complete(read(Path(str(resources.files("day0.templates") / "targets" / f"{name}.yaml")), Target))


def target_of(machine: Machine) -> Target:
    """The manifest of a machine: that of its architecture, else of the nearest older one, else of its backend, else one that knows nothing."""
    same = [target for target in map(named_target, target_names()) if target.backend == machine.backend]
    older = [target for target in same if order(target.arch) <= order(machine.card.arch)]
    if older:
        return max(older, key=lambda target: order(target.arch))
    return Target(name=machine.backend, title=f"{machine.backend}, of which there is no manifest", backend=machine.backend)


def order(arch: str) -> tuple[str, int]:
    """Kind of architecture and its number: ("sm_", 90), ("gfx", 0x942); what has no number is before all others."""
    found = re.fullmatch(r"(sm_)(\d{2,4})|(gfx)([0-9a-f]{3,4})", arch)
    if not found:
        return "", 0
    return ("sm_", int(found[2])) if found[1] else ("gfx", int(found[4], 16))


def complete(target: Target) -> Target:
    """With the registrations that it refers to."""
    if target.dispatcher is None or target.registered is not None:
        return target
    if not re.fullmatch(r"\w+", target.dispatcher):
        raise Day0Error(f"{target.dispatcher!r} is no name of a dispatcher", target.name)
    return target.model_copy(update={"registered": dispatcher(target.dispatcher)})


@cache
def dispatcher(name: str) -> Dispatcher:
    """Registrations that come with day0."""
    return read(Path(str(resources.files("day0.templates") / "dispatchers" / f"{name}.yaml")), Dispatcher)


def read(path: Path, kind: type[S]) -> S:
    """A file in the layout of `kind`; every way it can be wrong is an error that names the field."""
    if not path.is_file():
        raise Day0Error("there is no such manifest", path, hint=f"known by name: {', '.join(target_names())}")
    if path.stat().st_size > LIMIT:
        raise Day0Error(f"larger than {LIMIT >> 20} MiB", path, hint="this is not a manifest")
    try:
        data: Any = yaml.load(path.read_text(encoding="utf-8"), Loader=Loader)
        return kind.model_validate(data)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Day0Error(f"not YAML: {str(error).splitlines()[0]}", path) from None
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "manifest"
        raise Day0Error(f"{field}: {first['msg']}", path, hint="templates/targets/ has examples") from None
