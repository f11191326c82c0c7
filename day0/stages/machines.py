"""Machines by name: a profile with a number of cards, a user's own file, or what is here."""

import re
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources
from pathlib import Path

import yaml
from pydantic import ValidationError

from day0.spec.errors import Day0Error
from day0.spec.machine import Machine
from day0.spec.profile import Profile
from day0.spec.registry import backends
from day0.spec.reports.base import Loader

LIMIT = 1 << 20  # bytes of a profile that are read at all


def find_machine(name: str | None) -> Machine:
    """The machine that a person named.

    None is this machine, probed. A name is a profile ("b300_sxm", or "b300" when no other begins so), a YAML file, or a backend
    ("cpu": this machine, seen through it); profiles and files take a number of cards: "b300x8", "h200_sxm×8", "mine.yaml×2".
    """
    if name is None:
        return probe_machine()
    if name in backends():
        return _through(name)
    for wanted, cards in _readings(name):
        if wanted.endswith((".yaml", ".yml")):
            return read_profile(Path(wanted)).machine(cards)
        found = matching(wanted)
        if len(found) == 1:
            return named_profile(found[0]).machine(cards)
        if found:
            raise Day0Error(f"{wanted!r} can be several machines", hint=f"one of {', '.join(found)}")
    known = [*backends().names(), *profile_names()]
    raise Day0Error(f"no machine named {name!r}", hint=f"known: {', '.join(known)}; or a YAML file")


def probe_machine() -> Machine:
    """What is here: the first backend with a device; the processor when there is no accelerator."""
    names = sorted(backends().names(), key=lambda name: (name == "cpu", name))
    found = (backends().get(name).probe() for name in names)
    return next(machine for machine in found if machine is not None)


def profile_names() -> list[str]:
    """Names of the profiles that come with day0."""
    files = resources.files("day0.templates.machines").iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


def named_profile(name: str) -> Profile:
    """A profile that comes with day0."""
    with resources.as_file(resources.files("day0.templates.machines") / f"{name}.yaml") as path:
        return read_profile(path)


def read_profile(path: Path) -> Profile:
    """A profile from its file; every way it can be wrong is an error that names the field."""
    if not path.is_file():
        raise Day0Error("there is no machine profile", path, hint=f"known by name: {', '.join(profile_names())}")
    if path.stat().st_size > LIMIT:
        raise Day0Error(f"larger than {LIMIT >> 20} MiB", path, hint="this is not a machine profile")
    try:
        return Profile.model_validate(yaml.load(path.read_text(encoding="utf-8"), Loader=Loader))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Day0Error(f"not YAML: {str(error).splitlines()[0]}", path) from None
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "profile"
        raise Day0Error(f"{field}: {first['msg']}", path, hint="templates/machines/ has examples") from None


def matching(name: str) -> list[str]:
    """Profiles of that name, else those that begin with it as a word or part of one."""
    plain = name.lower().replace("-", "_")
    known = profile_names()
    return [plain] if plain in known else [profile for profile in known if plain and profile.startswith(plain)]


def _readings(name: str) -> Iterator[tuple[str, int]]:
    """(name, cards): the whole as a name first, then with its ending as a number of cards."""
    yield name, 1
    split = re.fullmatch(r"(.+?)\s*[x×](\d{1,6})", name)
    if split:
        yield split[1], int(split[2])


def _through(backend: str) -> Machine:
    machine = backends().get(backend).probe()
    if machine is None:
        raise Day0Error(f"this machine has no {backend} device that the installed torch can use", hint="or name a machine profile")
    return replace(machine, name=backend)
