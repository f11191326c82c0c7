"""What the registry says of formats; their sizes and numbers are tested with the checkpoints that hold them."""

import pytest

from day0.engine.release import Release
from day0.spec.registry import formats
from tests.zoo import checkpoint, names

ELSEWHERE = {"fp8": "no checkpoint of the builder: tests/checkpoint compares it with compressed-tensors"}
FORMATS = dict(formats().items())


@pytest.mark.parametrize("name", FORMATS)
def test_declaration(name: str) -> None:
    form = FORMATS[name]
    assert form.name == name
    assert isinstance(form.packed, bool)


def test_plain_takes_what_is_left() -> None:
    assert max(FORMATS.values(), key=lambda form: form.order).name == "plain"
    assert not FORMATS["plain"].packed


@pytest.mark.parametrize("name", FORMATS)
def test_a_checkpoint_has_it(name: str) -> None:
    """So that the engine's tests run on it."""
    if name in ELSEWHERE:
        pytest.skip(ELSEWHERE[name])
    assert any(stored.format == name for one in names() for stored in Release.open(checkpoint(one)).checkpoint.stored.values())
