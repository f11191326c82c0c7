"""What can be said of a release that no family recognises, in the words of the closest family that is known."""

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from day0.checkpoint.alike import NUMBER, alike
from day0.checkpoint.folder import Checkpoint
from day0.engine.nearest import Likeness, nearest
from day0.engine.release import Release, recognise
from day0.engine.specs import specs
from day0.spec.errors import Day0Error
from day0.spec.record import record
from day0.spec.registry import families

SHOWN = 60  # characters of a value
MOST = 60  # lines of one list


@record
class Unknown:
    """What matched, and what did not; each list has one line for names that differ only in their numbers."""

    model_type: str  # as the configuration says
    closest: Likeness
    absent: Mapping[str, str]  # key that the family requires and that the configuration lacks → unread keys that are spelled like it
    unread: Mapping[str, str]  # key that the family does not read → its value
    missing: list[str]  # weights that no tensor gives
    misfits: list[str]  # tensors of another shape than the configuration gives
    unclaimed: list[str]  # tensors that no name claims, with missing weights of the same shape

    @property
    def matched(self) -> str:
        """In a sentence."""
        one = self.closest
        return f"Of it {one.claimed} of {one.kinds} kinds of tensor names and {one.read} of {one.keys} configuration keys are known."

    @property
    def open(self) -> int:
        """Lines that a person has to look at."""
        return sum(map(len, (self.absent, self.unread, self.missing, self.misfits, self.unclaimed)))


def understand(checkpoint: Checkpoint) -> Unknown:
    """Day0Error when a family recognises it, or when it resembles none."""
    kind = checkpoint.config.str("model_type", None)
    if not kind or len(kind) > SHOWN:
        raise Day0Error("the configuration has no model_type, or a very long one", checkpoint.config.path, hint="a family is recognised by it")
    try:
        name, _ = recognise(checkpoint.config)
    except Day0Error:
        best = nearest(checkpoint)
    else:
        raise Day0Error(f"family {name} reads model_type {kind!r}", checkpoint.config.path, hint="see `day0 inspect` for what it lacks")
    if best is None:
        raise Day0Error("no known family has such tensor names", checkpoint.source.where, hint="see docs/adapt-a-new-family.md")
    family = replace(families().get(best.family), names=best.names)
    release = Release(checkpoint, family, best.model) if best.model else None
    names = release.unclaimed if release else family.names.resolve(iter(checkpoint.stored))[1]
    return Unknown(
        model_type=kind,
        closest=best,
        absent={key: _spelled_alike(key, best.unread) for key in best.absent},
        unread={key: _value(checkpoint.config.data, key) for key in best.unread},
        missing=_cut([*_missing(release)]) if release else [],
        misfits=_cut([*_misfits(release)]) if release else [],
        unclaimed=_cut([*_unclaimed(names, checkpoint, release, best)]),
    )


def _spelled_alike(key: str, unread: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(key, unread, 3, cutoff=0.5)
    return f": is it {' or '.join(near)}?" if near else ""


def _value(data: Mapping[str, Any], key: str) -> str:
    """As JSON; the key of an object within the outermost one has a dot."""
    outer, _, inner = key.partition(".")
    value = data[key] if key in data else data[outer][inner]
    return json.dumps(value)[:SHOWN]


def _shapes(release: Release) -> dict[str, tuple[int, ...]]:
    """Missing weight, without the number of its layer → its shape."""
    wanted = dict(specs(release.model))
    return {_within(name): wanted[name].shape for name in release.missing}


def _within(name: str) -> str:
    return re.sub(r"^layers\.\d+\.", "", name)


def _missing(release: Release) -> Iterator[str]:
    shapes = _shapes(release)
    for pattern, names in alike(release.missing):
        layers = f" in {len(names)} layers" if len(names) > 1 else ""
        yield f"{pattern} {list(shapes[_within(names[0])])}{layers}"


def _misfits(release: Release) -> Iterator[str]:
    odd = {name: located for name, located in release.tensors.items() if not located.fits and name not in release.missing}
    for pattern, names in alike(odd):
        yield f"{pattern} is {list(odd[names[0]].shape)}, {list(odd[names[0]].spec.shape)} by the configuration"


def _unclaimed(names: list[str], checkpoint: Checkpoint, release: Release | None, best: Likeness) -> Iterator[str]:
    """As an entry of `Names.tensors` where they are in a layer."""
    layer = re.compile(re.escape(best.names.layer).replace(r"\{i\}", r"\d+"))
    shapes = _shapes(release) if release else {}
    for _, members in alike(names):
        shape = checkpoint.stored[members[0]].shape
        inside = layer.split(members[0], maxsplit=1)
        key = NUMBER.sub("{e}", inside[-1]).removesuffix(".weight") if len(inside) > 1 else members[0]
        like = [weight for weight, wanted in shapes.items() if shape in (wanted, wanted[1:] if "{e}" in key else wanted)]
        said = f"; shaped like {' and '.join(like[:4])}" if like else ""
        yield f'{json.dumps(key)}: "",  # {len(members)} of {list(shape)}{said}'


def _cut(lines: list[str]) -> list[str]:
    return lines if len(lines) <= MOST else [*lines[:MOST], f"and {len(lines) - MOST} more"]
