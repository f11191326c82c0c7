"""What configurations of towers say in the same words."""

from typing import Any

from day0.checkpoint.config import REQUIRED, Config
from day0.spec.axial import AxialRope
from day0.spec.errors import Day0Error
from day0.spec.names import Cut


def read_axial(vision: Config, dim: int, order: Any, *, interleaved: bool = False) -> AxialRope:
    """Rotation of heads of `dim` dimensions by row and column."""
    said = vision.sub("rope_parameters")
    if said.str("rope_type", "axial") != "axial" or dim % 4 or dim <= 0:
        raise Day0Error(f"heads of {dim} dimensions, rope_type {said.str('rope_type', 'axial')!r}", vision.path, hint="only axial, by fours")
    return AxialRope(dim=dim, theta=said.float("rope_theta", 10000.0), order=order, interleaved=interleaved)


def size_of(vision: Config, key: str, default: Any = REQUIRED, most: int = 1 << 16) -> int:
    """A whole number that something is divided by or built of; Day0Error outside 1 … `most`."""
    value = int(vision.int(key, default))
    if not 1 <= value <= most:
        raise Day0Error(f"{vision.prefix}{key} is {str(value)[:20]}, must be between 1 and {most}", vision.path)
    return value


def layers_of(vision: Config, key: str, default: int) -> int:
    """How many layers a tower has."""
    return size_of(vision, key, default, most=1000)


def thirds(suffix: str) -> tuple[Cut, ...]:
    """Queries, keys and values of a tower in one tensor."""
    return tuple(Cut(target=f"mixer.{name}{suffix}", part=i, of=3) for i, name in enumerate("qkv"))
