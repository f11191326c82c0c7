"""The known family that is closest to a release that no family recognises: by keys that it reads and names that it claims. Needs no torch."""

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from day0.checkpoint.alike import kinds
from day0.checkpoint.config import REQUIRED, Config
from day0.checkpoint.folder import Checkpoint
from day0.checkpoint.outline import STACK
from day0.checkpoint.words import Words
from day0.engine.specs import end_specs
from day0.spec.family import Family
from day0.spec.model import Model
from day0.spec.names import Names
from day0.spec.record import record
from day0.spec.registry import families, parts

MOST_LAYERS = 10_000
MOST = 65_536  # of what else families loop over
COUNTED = re.compile(r"^(?!.*size).*(layer|head|expert|depth)")  # keys that count such
STAND_INS: Mapping[type, Any] = {int: 1, float: 1.0, bool: False, str: "", list: [], dict: {}}


class Trial(Config):
    """A configuration read by a family that was not written for it: a required key that is absent stands as 1, and is remembered."""

    def __init__(self, *args: Any, absent: list[str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.absent: list[str] = [] if absent is None else absent

    def sub(self, key: str) -> "Trial":
        nested = super().sub(key)
        return Trial(nested.data, nested.path, nested.prefix, nested.read_keys, absent=self.absent)

    def _value(self, key: str, default: Any, kind: type, widen: Any) -> Any:
        if default is REQUIRED and self.data.get(key) is None:
            if self.prefix + key not in self.absent:
                self.absent.append(self.prefix + key)
            default = copy.copy(STAND_INS.get(kind))
        return super()._value(key, default, kind, widen)


@record
class Likeness:
    """What one family makes of a release that it does not recognise."""

    family: str  #: file name in `families/`
    names: Names  #: its names, with the release's own prefix of layers where that claims more
    model: Model | None  #: as it reads the configuration; None where it cannot
    problem: str  #: why it cannot; "" where it can
    absent: tuple[str, ...]  #: dotted keys that it requires and that the configuration lacks
    unread: tuple[str, ...]  #: dotted keys that it does not read
    keys: int  #: keys of the configuration, of objects within it those inside
    kinds: int  #: kinds of tensor names (names that differ only in their numbers are one kind)
    claimed: int  #: kinds that it claims
    wanted: int  #: kinds of weights that its model has; 0 where there is no model
    missing: int  #: kinds of weights that no tensor gives

    @property
    def read(self) -> int:
        """Keys of the configuration that it reads."""
        return self.keys - len(self.unread)

    @property
    def score(self) -> float:
        """Between 0 and 1: shares of names claimed, of keys read, and of weights found, weighted alike."""
        found = (self.wanted - self.missing) / (self.wanted + len(self.absent)) if self.wanted else 0.0
        return (self.claimed / max(1, self.kinds) + self.read / max(1, self.keys) + found) / 3

    def __str__(self) -> str:
        return f"{self.family} ({self.claimed} of {self.kinds} kinds of tensor names, {self.read} of {self.keys} configuration keys)"


def nearest(checkpoint: Checkpoint) -> Likeness | None:
    """The family with the highest score; None where none claims a single tensor."""
    samples = {kind: names[0] for kind, names in kinds(checkpoint.stored).items()}
    whole = checkpoint.config.data
    readings = [whole] if (inner := Words.of(whole).data) is whole else [whole, inner]  # the language model may lie under a key of its own
    readings = [data for data in readings if absurd(data) is None]
    found = [likeness(name, family, checkpoint, samples, data) for name, family in families().items() for data in readings]
    found = [one for one in found if one.claimed or (checkpoint.config_alone and one.read)]
    return max(found, key=lambda one: one.score) if found else None


def absurd(data: Mapping[str, Any], depth: int = 4) -> str | None:
    """What is said of a number of layers, or of heads, experts or a head's elements, that no release has: families loop over them."""
    for key, value in data.items():
        if isinstance(value, dict) and depth and (found := absurd(value, depth - 1)):
            return found
        name = str(key)
        most = MOST_LAYERS if "layers" in name else MOST
        if isinstance(value, int | float) and value > most and COUNTED.search(name):
            return f"{name} is {_short(value)}: no release has more than {most}"
    return None


def _short(value: float) -> str:
    return f"{value:.4g}" if value < 1e300 else "beyond all bounds"


def advice(checkpoint: Checkpoint) -> str:
    """What to do about a release that no family recognises."""
    best = nearest(checkpoint)
    if best is None:
        return "no known family has such tensor names; see docs/adapt-a-new-family.md"
    return f"closest known family: {best}; `day0 new family NAME --from {checkpoint.source.where}` drafts one for it"


def likeness(name: str, family: Family, checkpoint: Checkpoint, samples: Mapping[str, str], data: Mapping[str, Any]) -> Likeness:
    """What `family` makes of it and of the configuration `data`; `samples` has one name of each kind of tensor."""
    trial = Trial(copy.deepcopy(dict(data)), checkpoint.config.path)
    model, problem, wanted = None, "", set[str]()
    try:
        read = family.read(trial)
        read = family.fit(read, checkpoint.stored) if family.fit else read
        model, wanted = read, set(_wanted(read))
    except Exception as error:  # a family meets a configuration that it was not written for, and may fail in any way
        problem = str(error) or type(error).__name__
    names, found, unclaimed = _claims(family.names, samples)
    left = [source for source in unclaimed if model is None or not _apart(source, model)]
    unread = tuple(key for key in keys(trial.data) if not _is_read(key, trial.read_keys))
    return Likeness(
        family=name, names=names, model=model, problem=problem, absent=tuple(trial.absent), unread=unread, keys=len([*keys(trial.data)]),
        kinds=len(samples), claimed=len(samples) - len(left), wanted=len(wanted), missing=len(wanted - kinds(found).keys()),
    )  # fmt: skip


def _wanted(model: Model) -> Iterator[str]:
    """Kinds of weights of a model, each part of its layers asked once."""
    for name, _ in end_specs(model):
        yield name
    asked = {(place, id(part)): part for layer in model.layers for place, part in layer.parts()}
    for (place, _), part in asked.items():
        for spec in parts().get(part.kind).tensors(part, model.hidden):
            yield from kinds([f"layers.0.{place}.{spec.name}"])


def keys(data: Mapping[str, Any]) -> Iterator[str]:
    """Dotted keys; of objects within the outermost one, those inside."""
    for key, value in data.items():
        if isinstance(value, dict) and value:
            yield from (f"{key}.{inner}" for inner in value)
        else:
            yield key


def _is_read(key: str, read: Mapping[str, str]) -> bool:
    """Asked for itself, or as a part of an object of which nothing is asked for by name."""
    outer = key.partition(".")[0]
    return key in read or (outer in read and not any(other.startswith(f"{outer}.") for other in read))


def _claims(names: Names, samples: Mapping[str, str]) -> tuple[Names, set[str], list[str]]:
    """(names, canonical names found, samples left over), with the family's own prefix of layers or the release's."""
    stacks = [match[0] for match in map(STACK.match, samples) if match]
    own = max(stacks, key=stacks.count, default=None)
    readings = [names] if own is None else [names, replace(names, layer=f"{own}.{{i}}.", prefixes=("",))]
    resolved = [(reading, *reading.resolve(iter(samples.values()))) for reading in readings]
    best, found, left = min(resolved, key=lambda one: len(one[2]))
    return best, set(found), left


def _apart(source: str, model: Model) -> bool:
    """Whether it belongs to a tower or a prediction layer."""
    prefixes = [prefix for tower in model.towers for prefix in tower.prefixes]
    prefixes += model.prediction.prefixes if model.prediction else ()
    return source.startswith(tuple(prefixes))
