"""What the registry says of formats; their sizes and numbers are tested with the checkpoints that hold them."""

import pytest

from day0.engine.release import Release
from day0.spec.registry import formats
from tests.zoo import checkpoint, names

FORMATS = dict(formats().items())


@pytest.mark.parametrize("name", FORMATS)
def test_declaration(name: str) -> None:
    form = FORMATS[name]
    assert form.name == name
    assert isinstance(form.packed, bool)


def test_recognisers_have_an_order_and_plain_takes_what_is_left() -> None:
    orders = [form.order for form in FORMATS.values()]
    assert len(set(orders)) == len(orders)
    assert max(FORMATS.values(), key=lambda form: form.order).name == "plain"
    assert not FORMATS["plain"].packed


@pytest.mark.parametrize("name", FORMATS)
def test_a_checkpoint_has_it(name: str) -> None:
    """So that the engine's tests run on it."""
    assert any(stored.format == name for one in names() for stored in Release.open(checkpoint(one)).checkpoint.stored.values())
