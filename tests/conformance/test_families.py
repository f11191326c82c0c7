"""Every family reads the checkpoints of its kind without a rest, and counts released models as their makers do."""

import copy
import re
from dataclasses import replace
from functools import cache
from math import prod

import pytest
import torch
import transformers

from day0.checkpoint.config import Config
from day0.engine.release import Release, recognise
from day0.engine.specs import specs
from day0.spec.family import Family
from day0.spec.names import numbers
from day0.spec.registry import blocks, families, formats, parts
from tests.conformance.published import RELEASES
from tests.zoo import checkpoint, every


@cache
def release(name: str) -> Release:
    return Release.open(checkpoint(name))


@pytest.mark.parametrize("name", every())
def test_nothing_is_missing_and_nothing_is_left_over(name: str) -> None:
    found = release(name)
    found.require_complete()
    assert (found.missing, found.unclaimed) == ([], [])
    assert found.model.unread_keys == ()
    assert not found.prediction or found.model.prediction is not None
    if "num_nextn_predict_layers" in found.checkpoint.config:
        expected = found.checkpoint.config.data["num_nextn_predict_layers"]
        assert (found.model.prediction.count if found.model.prediction else 0) == expected


@pytest.mark.parametrize("name", every())
def test_every_stored_number_is_used_once(name: str) -> None:
    """The model's weights have as many elements as the tensors they come from (stored padding aside); no part of one has two owners."""
    found = release(name)
    owners: dict[tuple[str, int, int], str] = {}
    for canonical, located in found.tensors.items():
        for piece, stored in located.pieces:
            key = (stored.name, piece.cut.axis if piece.cut else -1, piece.cut.part if piece.cut else 0)
            assert owners.setdefault(key, canonical) == canonical, f"{stored.name} is {owners[key]} and {canonical}"
    sources = {source for source, _, _ in owners}
    apart = {source for tower in found.towers.values() for source in tower} | set(found.prediction)
    unused = {name for name in found.checkpoint.stored if any(re.search(pattern, name) for pattern in found.model.unused)}
    ignored = {name for name in found.checkpoint.stored if any(re.search(pattern, name) for pattern in found.family.names.ignored)}
    assert sources | apart | unused | ignored == found.checkpoint.stored.keys()
    stored = sum(prod(found.checkpoint.stored[source].shape) for source in sources)
    padded = any(piece.cut and piece.cut.padded for located in found.tensors.values() for piece, _ in located.pieces)
    assert padded or sum(spec.count for _, spec in specs(found.model)) == stored


@pytest.mark.parametrize("name", every())
def test_names_go_both_ways(name: str) -> None:
    """The checkpoint tensors of a canonical name, each resolved alone, lead back to it and to the same expert."""
    found = release(name)
    for canonical, located in found.tensors.items():
        for piece, stored in located.pieces:
            again, rest = found.family.names.resolve(iter([stored.name]))
            assert rest == []
            assert canonical in again and piece in again[canonical]


@pytest.mark.parametrize("name", every())
def test_alike_experts_are_claimed_as_each_alone_would_be(name: str) -> None:
    together = release(name)
    found = together.checkpoint
    each = Release.of(replace(found, headers=dict(found.headers.items()), stored=dict(found.stored.items())))
    one, other = ({canonical: list(located.pieces) for canonical, located in some.tensors.items()} for some in (together, each))
    assert one == other and (together.missing, together.unclaimed) == (each.missing, each.unclaimed)
    assert sorted(together.prediction) == sorted(each.prediction)


def test_numbers_that_a_pattern_may_want_of_an_expert() -> None:
    assert numbers("mlp.experts.{e}.w1", r"layers\.0\.self_attn", "mtp.3.", r"experts\.(2|15)\.v2", "shard_7.bin") == {0, 2, 3, 7, 15}


def test_every_family_has_a_checkpoint() -> None:
    assert {release(name).model.family for name in every()} == set(families().names())


def test_no_two_families_recognise_the_same() -> None:
    known = [kind for _, family in families().items() for kind in family.recognises]
    assert len(set(known)) == len(known)


@pytest.mark.parametrize("name", families().names())
def test_a_family_says_what_is_there(name: str) -> None:
    """Names lead to weights that parts know; parts, blocks and formats of its checkpoints have files."""
    family: Family = families().get(name)
    assert family.recognises
    mine = [release(one) for one in every() if release(one).model.family == name]
    assert {recognise(one.checkpoint.config)[0] for one in mine} == {name}
    kinds = {part.kind for one in mine for layer in one.model.layers for _, part in layer.parts()}
    assert kinds <= set(parts().names()) and kinds <= set(blocks().names())
    assert {stored.format for one in mine for stored in one.checkpoint.stored.values()} <= set(formats().names())


@pytest.mark.parametrize("name", RELEASES)
def test_counts_of_released_models(name: str) -> None:
    """As published; and to the last weight as many as transformers allocates."""
    published = RELEASES[name]
    config = Config(copy.deepcopy(published.config))
    model = recognise(config)[1].read(config)
    weights = [spec for _, spec in specs(model)]
    total, active = sum(spec.count for spec in weights), sum(spec.active for spec in weights)
    for count, figure in ((total, published.total), (active, published.active)):
        digits = len(figure.partition(".")[2])
        assert f"{count / 1e9:.{digits}f}" == figure, published.source
    own = {key: value for key, value in copy.deepcopy(published.config).items() if key != "model_type"}
    with torch.device("meta"):
        theirs = getattr(transformers, published.model_class)(getattr(transformers, published.config_class)(**own))
    assert total == sum(tensor.numel() for tensor in theirs.state_dict().values())
