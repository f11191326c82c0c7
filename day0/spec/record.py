"""The decorator of every central type: an immutable dataclass whose fields are given by name."""

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

Class = TypeVar("Class", bound=type)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def record(cls: Class) -> Class:
    """Make `cls` a frozen, keyword-only dataclass; hashable when its fields are."""
    return dataclass(frozen=True, kw_only=True)(cls)  # type: ignore[return-value]
