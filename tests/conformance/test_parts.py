"""Every part: weights, state and operator calls are consistent, and the calls that it declares are those that its block makes."""

from collections import Counter
from collections.abc import Iterator
from functools import cache
from inspect import signature
from typing import Any, get_args

import pytest

from day0.engine.arguments import SCALARS, bound, is_array, letters, sizes
from day0.engine.probe import Call, Probe
from day0.engine.release import Release
from day0.engine.rules import named_rules
from day0.engine.shard import Cut
from day0.spec.axes import AXES
from day0.spec.block import FfnBlock, MixerBlock, ResidualBlock
from day0.spec.dtype import COMPUTE
from day0.spec.model import PartSpec, Role, Split, TensorSpec
from day0.spec.ops import PHASES, Op, Site
from day0.spec.placement import Placement
from day0.spec.registry import blocks, ops, parts
from tests.engine.opened import described, load, planned
from tests.zoo import checkpoint, every

PLACES = {"mixer": MixerBlock, "embedding": MixerBlock, "ffn": FfnBlock, "residual": ResidualBlock}
VARYING = set("TSPB")  # axes that depend on the step


@cache
def release(name: str) -> Release:
    return Release.open(checkpoint(name))


@cache
def used() -> dict[tuple[str, PartSpec, int], str]:
    """(place, part, model width) → a checkpoint of the zoo that has it."""
    found = {}
    for name in every():
        model = described(name)
        for layer in model.layers:
            for place, part in layer.parts():
                found[place, part, model.hidden] = name
    return found


EVERY = [pytest.param(*key, id=f"{name}-{key[1].kind}") for key, name in used().items()]


TOWERS = {"vision_attention", "patch_embedding", "patch_merger", "square_projector", "strided_projector"}  # tests/vision has them


def test_every_part_is_used_and_has_a_block() -> None:
    others = {name for name in parts().names() if is_collapse(name)} | TOWERS
    assert {part.kind for _, part, _ in used()} >= set(parts().names()) - others
    assert set(parts().names()) == set(blocks().names())


def is_collapse(name: str) -> bool:
    return any(model.collapse is not None and model.collapse.kind == name for model in map(described, every()))


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize(("place", "part", "hidden"), EVERY)
def test_a_rank_has_of_every_weight_what_the_declarations_cut(place: str, part: PartSpec, hidden: int, ranks: int) -> None:
    """The sublayer of a rank, and each of its weights cut on its own, are two ways to the same shapes."""
    cut, own = Cut(Placement(tp=ranks), named_rules(), "", "float32"), parts().get(part.kind)
    whole = list(own.tensors(part, hidden))
    if any(not heads.divides(ranks) for spec in whole for heads in spec.heads) or any(ragged(cut, spec) for spec in whole):
        return  # such a plan is refused
    held = {spec.name: spec.shape for spec in own.tensors(own.of_rank(part, ranks), hidden)}
    assert held == {spec.name: cut.shape(spec, None, 1) if spec.split in ("column", "row") else spec.shape for spec in whole}


def ragged(cut: Cut, spec: TensorSpec) -> bool:
    return not spec.heads and any(spec.shape[axis] % ranks for axis, ranks in cut.ranks(spec).items())


@pytest.mark.parametrize(("place", "part", "hidden"), EVERY)
def test_the_block_suits_the_place(place: str, part: PartSpec, hidden: int) -> None:
    assert isinstance(blocks().get(part.kind), PLACES[place])


@pytest.mark.parametrize(("place", "part", "hidden"), EVERY)
def test_weights(place: str, part: PartSpec, hidden: int) -> None:
    specs = list(parts().get(part.kind).tensors(part, hidden))
    assert len({spec.name for spec in specs}) == len(specs)
    for spec in specs:
        assert len(spec.axes) == len(spec.shape) and set(spec.axes) <= AXES.keys() and min(spec.shape) > 0, spec.name
        assert spec.role in get_args(Role) and spec.split in get_args(Split), spec.name
        assert 0 < spec.used[0] <= spec.used[1] and spec.active <= spec.count, spec.name
        assert (spec.role == "expert") == (spec.axes[0] == "E" and len(spec.axes) == 3), spec.name
    groups = [spec.group for spec in specs]
    for group in {group for group in groups if group}:
        first, members = groups.index(group), [spec for spec in specs if spec.group == group]
        assert groups[first : first + len(members)] == [group] * len(members), f"{group} is not in one piece"
        assert len({(spec.shape[1:], spec.precision, spec.role) for spec in members}) == 1, f"members of {group} read different inputs"


@pytest.mark.parametrize(("place", "part", "hidden"), EVERY)
def test_state(place: str, part: PartSpec, hidden: int) -> None:
    for dtype in COMPUTE:
        found = list(parts().get(part.kind).state(part, dtype))
        assert len({spec.name for spec in found}) == len(found)
        assert bool(found) <= (place in ("mixer", "embedding"))
        for spec in found:
            assert spec.entry_bytes > 0 and spec.every >= 1 and (spec.window is not None) == (spec.kind == "window")


@pytest.mark.parametrize(("place", "part", "hidden"), EVERY)
@pytest.mark.parametrize("phase", PHASES)
def test_sites_read_weights_of_their_size(place: str, part: PartSpec, hidden: int, phase: Any) -> None:
    """Every matrix and every norm is read in each phase; a site's sizes are the shapes of what it reads."""
    specs = {spec.name: spec for spec in parts().get(part.kind).tensors(part, hidden)}
    sites = list(parts().get(part.kind).sites(part, hidden, phase))
    assert len({(site.op, site.label) for site in sites}) == len(sites)
    read = set()
    for site in sites:
        assert site.op in ops().names() and site.phase == phase
        assert set(site.sizes) <= AXES.keys() and not set(site.sizes) & {"T", "S"}
        read |= set(site.weights)
        assert read <= specs.keys()
        for letter, count in weight_sizes(ops().get(site.op), [specs[name] for name in site.weights]).items():
            stated = site.sizes.get(letter, count)
            heads = site.sizes.get("H", 1) if letter == "V" else 1  # a norm of each head may have a weight of its own
            assert count in (stated, stated * heads), f"{site.op} {site.label}: {letter}"
    assert {name for name, spec in specs.items() if needs_site(spec)} <= read


def needs_site(spec: TensorSpec) -> bool:
    """Biases and tables are read by the call that reads the matrix they go with."""
    return spec.role in ("linear", "expert", "norm", "conv") or (spec.role == "router" and len(spec.shape) > 1)


def weight_sizes(op: Op, weights: list[TensorSpec]) -> dict[str, int]:
    """Axis letter → elements, by the shapes of the weights in the order in which the operator takes them; a group counts as one."""
    declared = [letters(axes) for axes in op.inputs.values()]
    taken = [axes for axes in declared if not VARYING & set("".join(axes))]
    found: dict[str, int] = {}
    if not taken:
        return found
    shapes = [spec.shape for spec in weights]
    if len({len(shape) for shape in shapes}) == 1 and all(spec.group for spec in weights):
        shapes = [(sum(shape[0] for shape in shapes), *shapes[0][1:])]
    for axes, shape in zip(taken[-len(shapes) :] if len(shapes) > 1 else taken, shapes, strict=False):
        found |= dict(zip(axes, shape, strict=True))
    return found


def declared_call(op: Op, found: dict[str, int], options: dict[str, Any]) -> tuple[Any, ...]:
    """What identifies a call: its operator, the axes that arguments decide, the options that arguments have."""
    known = {letter for axes in op.inputs.values() for letter in letters(axes)}
    known |= {letter for name, letter in SCALARS.items() if name in signature(op.reference).parameters}
    if any("P" in axes for axes in op.inputs.values()):
        known -= {"K"}  # there may be fewer entries than are chosen
    return (op.name, *sorted((letter, count) for letter, count in found.items() if letter in known - VARYING), *sorted(options.items()))


def of_site(site: Site) -> tuple[Any, ...]:
    op = ops().get(site.op)
    parameters = signature(op.reference).parameters
    return declared_call(op, dict(site.sizes), {name: repr(value) for name, value in site.options.items() if name in parameters})


def of_call(call: Call, site: Site) -> tuple[Any, ...]:
    """The call in the words of `site`: the axes and options that the site states."""
    op = ops().get(call.op)
    arguments = bound(op, call.args, call.kwargs)
    defaults = {name: parameter.default for name, parameter in signature(op.reference).parameters.items()}
    options = {}
    for name in site.options:
        if name in defaults:
            value = arguments.get(name, defaults[name])
            options[name] = repr(value is not None if isinstance(site.options[name], bool) and is_array(value) else value)
    found = sizes(op, arguments)
    return declared_call(op, {letter: found[letter] for letter in site.sizes if letter in found}, options)


def calls(name: str) -> Iterator[tuple[int, list[Call]]]:
    """(layer, what it called) for a prompt and one more token: a short one, and one that is longer than windows and choices."""
    _, mapped = planned(checkpoint(name), load())
    for count in (5, 130):
        probe = Probe.open(release(name), mapped, "float32")
        stream = probe.embed([7 * i % 250 for i in range(count + 1)])
        for index in range(len(release(name).model.layers)):
            seen: list[Call] = []
            stream = probe.layer(index, stream, None, [count, 1], seen.append).hidden_TD
            yield index, seen


Where = tuple[int, str, Any]  # layer, place, phase


@pytest.mark.parametrize("name", every())
def test_sites_are_the_calls_of_the_block(name: str) -> None:
    """Of the sizes and with the options that kernels are asked about; no call is missing in the map, and each is made by some prompt."""
    made: dict[Where, Counter[tuple[Any, ...]]] = {}
    said: dict[Where, Counter[tuple[Any, ...]]] = {}
    for index, seen in calls(name):
        for place, part in release(name).model.layers[index].parts():
            for phase in PHASES:
                sites = list(parts().get(part.kind).sites(part, release(name).model.hidden, phase))
                by_op = {site.op: site for site in sites}
                here = [call for call in seen if (call.place, call.phase) == (place, phase)]
                assert {call.op for call in here} <= by_op.keys(), f"layer {index} {place} {phase}"
                key, once = (index, place, phase), Counter(of_call(call, by_op[call.op]) for call in here)
                said[key] = Counter(of_site(site) for site in sites)
                if place == "residual":  # a stream may be normed before and again after a sublayer
                    once, said[key] = Counter(set(once)), Counter(set(said[key]))
                assert once <= said[key], f"layer {index} {place} {phase}"
                made[key] = made.get(key, Counter()) | once
    assert made == said
