"""The decorator of every central type: an immutable dataclass whose fields are given by name."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

Class = TypeVar("Class", bound=type)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def record(cls: Class) -> Class:
    """Make `cls` a frozen, keyword-only dataclass; hashable when its fields are.

    Comparison, hash and representation are those of a dataclass, but they are not compiled for each type: there are more than a hundred.
    """
    made: Any = dataclass(frozen=True, kw_only=True, repr=False, eq=False)(cls)
    compared = _values([each.name for each in fields(made) if each.compare])

    def equal(self: Any, other: Any) -> Any:
        return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

    for name, method in (("__eq__", equal), ("__hash__", lambda self: hash(compared(self))), ("__repr__", _told)):
        if name not in cls.__dict__:
            setattr(made, name, method)
    return made  # type: ignore[no-any-return]


def _values(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """What reads these attributes of a record, as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple(getattr(self, name) for name in names)


def _told(self: Any) -> str:
    inner = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{type(self).__qualname__}({inner})"
