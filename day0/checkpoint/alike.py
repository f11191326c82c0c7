"""Names that differ only in their numbers, told as one."""

import re
from collections.abc import Iterable, Iterator

NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")


def kinds(names: Iterable[str]) -> dict[str, list[str]]:
    """Pattern → names: `model.layers.3.mlp.experts.7.up_proj` is one of `model.layers.*.mlp.experts.*.up_proj`."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(NUMBER.sub("*", name), []).append(name)
    return found


def alike(names: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """(name, [name]) of names that stand alone, (pattern, names) of those that have company."""
    for pattern, members in kinds(names).items():
        yield (members[0] if len(members) == 1 else pattern), members
