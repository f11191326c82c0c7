"""Records behave as frozen dataclasses do."""

from dataclasses import FrozenInstanceError, dataclass, field
from typing import Any

import pytest

from day0.spec.record import record


def types(decorate: Any) -> Any:
    @decorate
    class Point:
        x: int
        y: tuple[int, ...] = ()
        note: str = field(default="", compare=False)
        hidden: int = field(default=0, repr=False)

        @property
        def far(self) -> bool:
            return self.x > 10

    @decorate
    class Named(Point):
        name: str

        def __repr__(self) -> str:
            return f"<{self.name}>"

    @decorate
    class Nothing:
        pass

    @decorate
    class One:
        held: Any

    return Point, Named, Nothing, One


def told(decorate: Any) -> list[Any]:
    Point, Named, Nothing, One = types(decorate)
    made = [
        Point(x=1), Point(x=1, note="other"), Point(x=1, y=(2,)), Point(x=1, hidden=3), Named(x=1, name="a"), Named(x=1, name="a", note="b"),
        Named(x=2, name="a"), Nothing(), One(held=1), One(held=(1,)), One(held=Point(x=1)),
    ]  # fmt: skip
    return [
        [[one == other for other in made] for one in made],
        [len({one, other}) for one in made for other in made],
        [hash(one) for one in made], [repr(one).replace(f"{types.__name__}.<locals>.", "") for one in made], One(held=1) != 1, made[0].far,
    ]  # fmt: skip


def test_they_compare_hash_and_read_as_dataclasses_do() -> None:
    assert told(record) == told(dataclass(frozen=True, kw_only=True))


def test_they_stay_as_they_are_and_what_they_hold_decides_whether_they_hash() -> None:
    Point, *_, One = types(record)
    with pytest.raises(FrozenInstanceError):
        Point(x=1).x = 2
    with pytest.raises(TypeError, match="unhashable"):
        hash(One(held=[]))
    with pytest.raises(TypeError, match="positional"):
        Point(1)
