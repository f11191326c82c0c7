"""Weights in memory: the numbers of the files, in the places and the bytes that were planned, resident or read layer by layer."""

import json
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from day0.checkpoint.folder import Checkpoint
from day0.engine import footprint, loading
from day0.engine.packed import Group, Workspace
from day0.engine.release import Located, Release
from day0.engine.weights import Resident, Streamed, open_weights
from day0.spec.errors import Day0Error
from day0.spec.lazy import torch_dtype
from day0.spec.model import TensorSpec
from day0.spec.names import Cut, Names
from day0.spec.packed import Packed
from tests.engine.opened import CPU, expected, logits, planned, start
from tests.engine.opened import load as workload
from tests.engine.test_logits import TOLERANCE
from tests.zoo import checkpoint, fp8, names

PACKED = [name for name in names() if "-fp8" in name]


def stored(folder: Path) -> dict[str, Tensor]:
    """Every tensor of a checkpoint, read by safetensors."""
    return {name: tensor for file in sorted(folder.glob("model-*.safetensors")) for name, tensor in load_file(file).items()}


def leaf(w: Any, name: str) -> Any:
    for step in name.split("."):
        w = getattr(w, step)
    return w


def comparable(located: Located) -> bool:
    """Whole tensors in formats that the zoo can decode by bits; cuts and other formats have tests of their own."""
    return located.format in ("plain", "fp8_block") and all(piece.cut is None for piece, _ in located.pieces)


def truth(located: Located, tensors: dict[str, Tensor], dtype: torch.dtype) -> Tensor:
    """A weight from what safetensors read: decoded from its bits where it is packed, its experts stacked."""
    pieces = []
    for _, entry in located.pieces:
        plain = tensors[entry.name]
        if f"{entry.name}_scale_inv" in tensors:
            plain = fp8.by_bits(plain, tensors[f"{entry.name}_scale_inv"], entry.block)
        pieces.append(plain.to(dtype) if plain.is_floating_point() else plain)
    return (torch.stack(pieces) if located.stacked else pieces[0]).reshape(located.spec.shape)


def values(weight: Any, located: Located) -> Tensor:
    """A weight as operators see it."""
    if not isinstance(weight, Packed):
        return weight
    if not weight.bank:
        return weight.decode(torch.empty(weight.shape, dtype=weight.dtype))
    return torch.stack([weight.expert(e).decode(torch.empty(weight.shape[1:], dtype=weight.dtype)) for e in range(weight.shape[0])])


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("residency", ["resident", "streamed"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_numbers_are_those_of_the_files(name: str, residency: str, dtype: str) -> None:
    release, tensors = Release.open(checkpoint(name)), stored(checkpoint(name))
    weights = open_weights(release, dtype, residency, CPU)
    compared = 0
    for index, w in enumerate(weights.layers()):
        for path, located in release.layer(index).items():
            if not comparable(located):
                continue
            compared += 1
            kind = torch_dtype(footprint.rest_dtype(located.spec.precision, dtype))
            found = values(leaf(w, path), located)
            assert found.shape == located.spec.shape
            assert torch.equal(found.to(kind), truth(located, tensors, kind).to(kind)), path
    assert compared > len(release.model.layers)
    everything = torch.arange(release.model.vocab)
    table, rows_T = weights.table(everything)
    ends = release.ends()
    assert torch.equal(table[rows_T], truth(ends["embed"], tensors, torch_dtype(dtype)))
    head = torch.cat([rows.clone() for rows in weights.head()])
    assert torch.equal(head, truth(ends["embed" if release.model.tied else "head"], tensors, torch_dtype(dtype)))
    assert release.model.norm is None or torch.equal(weights.ends.norm, truth(ends["norm"], tensors, torch_dtype(dtype)))  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["llama", "qwen3_moe", "deepseek_v3-fp8"])
@pytest.mark.parametrize("residency", ["resident", "streamed"])
def test_bytes_are_those_of_the_plan(name: str, residency: str) -> None:
    plan, _ = planned(checkpoint(name), workload(weights=residency))
    weights = open_weights(Release.open(checkpoint(name)), "float32", residency, CPU)
    assert weights.bytes == {pool.name: pool.bytes for pool in plan.weights}
    assert sum(weights.bytes.values()) == plan.per_card[0].weights


def addresses(release: Release, index: int, w: Any) -> set[int]:
    """Memory of a layer's weights."""
    found = set()
    for name in release.layer(index):
        weight = leaf(w, name)
        parts = weight.parts.values() if isinstance(weight, Packed) else [weight]
        found |= {part.untyped_storage().data_ptr() for part in parts}
    return found


@pytest.mark.parametrize("name", ["llama_tied", "deepseek_v3"])
def test_streamed_layers_take_turns_in_two_slots(name: str) -> None:
    release = Release.open(checkpoint(name))
    weights = open_weights(release, "float32", "streamed", CPU)
    places = [[addresses(release, i, w) for i, w in enumerate(weights.layers())] for _ in range(2)]
    assert all(len(one) == 1 for turn in places for one in turn), "a layer is one allocation"
    assert len({place for turn in places for one in turn for place in one}) == footprint.READ_AHEAD
    assert all(one != other for turn in places for one, other in pairwise(turn)), "the next layer is read over this one"


@pytest.mark.parametrize("name", ["llama_tied", "deepseek_v3"])
@pytest.mark.parametrize("stop", [0, 1, 2])
def test_a_pass_that_was_not_finished_does_not_matter(name: str, stop: int) -> None:
    """As after an error in the middle: the next pass has every layer's own weights, the first time and the second."""
    release = Release.open(checkpoint(name))
    right, weights = Resident(release, "float32", CPU), Streamed(release, "float32", CPU)
    for index, _ in enumerate(weights.layers()):
        if index == stop:
            break
    for _ in range(2):
        for index, (w, known) in enumerate(zip(weights.layers(), right.layers(), strict=True)):
            assert all(torch.equal(leaf(w, path), leaf(known, path)) for path in release.layer(index)), index


@pytest.mark.parametrize("name", ["llama", "llama_tied"])
def test_a_head_is_streamed_in_pieces(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(footprint, "HEAD_ROWS", 100)
    engine, right = start(checkpoint(name), weights="streamed", context=150), expected(checkpoint(name))
    assert len(list(engine.forward.weights.head())) == 3
    assert right.deviation(logits(engine, right.prompts)) <= TOLERANCE


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_packed_weights_are_decoded_into_one_workspace(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Allocated once; as large as the plan says, which is what the largest call takes."""
    made, peak = [], [0]
    create, take = Workspace.__init__, Workspace.take

    def counted(self: Workspace, size: int, device: torch.device) -> None:
        create(self, size, device)
        made.append(self._buffer.data_ptr())

    def measured(self: Workspace, shape: tuple[int, ...], kind: torch.dtype) -> Tensor:
        room = take(self, shape, kind)
        assert room.untyped_storage().data_ptr() == made[0]
        peak[0] = max(peak[0], self._used)
        return room

    monkeypatch.setattr(Workspace, "__init__", counted)
    monkeypatch.setattr(Workspace, "take", measured)
    engine, right = start(checkpoint(name), dtype=dtype), expected(checkpoint(name))
    logits(engine, right.first(24).prompts, decode_from=20)
    plan, _ = planned(checkpoint(name), workload(dtype=dtype))
    assert len(made) == 1
    assert peak[0] == plan.per_card[0].workspace == engine.account()["workspace"] > 0


def test_a_workspace_that_is_too_small_is_an_error() -> None:
    room = Workspace(100, CPU)
    room.take((10,), torch.float32)
    with pytest.raises(AssertionError, match="cannot take"):
        room.take((10,), torch.float32)
    room.rewind()
    assert room.take((25,), torch.float32).shape == (25,)


@pytest.mark.parametrize("name", names())
def test_weights_of_a_group_lie_side_by_side(name: str) -> None:
    """Where they are plain: as one tensor without a copy."""
    release = Release.open(checkpoint(name))
    seen = 0
    for w in open_weights(release, "float32", "resident", CPU).layers():
        none = SimpleNamespace()
        mixer, ffn = (getattr(w, place, none) for place in ("mixer", "ffn"))
        for part in (mixer, ffn, getattr(ffn, "shared", none)):
            for group in (one for one in vars(part).values() if isinstance(one, Group)):
                seen += 1
                if group.format != "plain":
                    assert group.joined is None
                else:
                    assert torch.equal(group.joined, torch.cat(list(group)))
                    assert group.joined.data_ptr() == group.members[0].data_ptr()
    expected_some = any(located.spec.group for i in range(len(release.model.layers)) for located in release.layer(i).values())
    assert bool(seen) == expected_some


CUTS: dict[str, tuple[Cut, ...]] = {
    "side by side": tuple(Cut(target=f"ffn.{name}", part=i, of=2) for i, name in enumerate(("gate", "up"))),
    "in turns": tuple(Cut(target=f"ffn.{name}", part=i, of=2, interleaved=True) for i, name in enumerate(("gate", "up"))),
    "of three": tuple(Cut(target=f"mixer.{name}", part=i, of=3) for i, name in enumerate("qkv")),
    "columns": tuple(Cut(target=f"ffn.{name}", axis=1, part=i, of=2) for i, name in enumerate(("gate", "up"))),
    "turned": (Cut(target="ffn.down", transpose=True),),
    "turned, in turns": tuple(
        Cut(target=f"ffn.{name}", axis=-1, part=i, of=2, interleaved=True, transpose=True) for i, name in enumerate("ab")),
    "experts, turned": tuple(Cut(target=f"ffn.experts.{name}", axis=2, part=i, of=2, transpose=True) for i, name in enumerate("ab")),
}  # fmt: skip


def sliced(source: Tensor, cut: Cut) -> Tensor:
    """What a cut means, in torch's indexing."""
    axis = cut.axis % source.dim()
    size = source.shape[axis] // cut.of
    index = slice(cut.part, None, cut.of) if cut.interleaved else slice(cut.part * size, (cut.part + 1) * size)
    piece = source[(slice(None),) * axis + (index,)]
    return piece.mT if cut.transpose else piece


def saved(folder: Path, tensors: dict[str, Tensor]) -> Checkpoint:
    (folder / "config.json").write_text(json.dumps({"model_type": "test"}))
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    return Checkpoint.open(folder)


@pytest.mark.parametrize("name", CUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_cuts(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    """Parts of one checkpoint tensor, read as the weights they are."""
    shape = (5, 12, 18) if "experts" in name else (24, 18)
    source = torch.randn(shape, generator=torch.Generator().manual_seed(len(name))).bfloat16()
    opened = saved(tmp_path, {"model.layers.3.joined.weight": source})
    found, rest = Names(layer="model.layers.{i}.", tensors={"joined": CUTS[name]}, ends={}).resolve(iter(opened.stored))
    assert rest == [] and len(found) == len(CUTS[name])
    for cut in CUTS[name]:
        right = sliced(source, cut)
        pieces = tuple((piece, opened.stored[piece.source]) for piece in found[f"layers.3.{cut.target}"])
        located = Located(name=cut.target, spec=TensorSpec(name="w", axes="OI", shape=tuple(right.shape), role="linear"), pieces=pieces)
        assert located.shape == right.shape
        out = torch.empty(right.shape, dtype=dtype)
        loading.fill(tmp_path, located, "", out)
        assert torch.equal(out, right.to(dtype)), cut.target


def test_cut_experts_are_stacked(tmp_path: Path) -> None:
    """Gate and up of each expert in one tensor, expert by expert; the tenth comes after the second."""
    sources = {f"model.layers.0.experts.{e}.both.weight": torch.randn(8, 6) for e in range(11)}
    opened = saved(tmp_path, sources)
    cuts = tuple(Cut(target=name, part=i, of=2) for i, name in enumerate(("gate", "up")))
    found, _ = Names(layer="model.layers.{i}.", tensors={"experts.{e}.both": cuts}, ends={}).resolve(iter(opened.stored))
    for i, name in enumerate(("gate", "up")):
        pieces = tuple((piece, opened.stored[piece.source]) for piece in found[f"layers.0.{name}"])
        spec = TensorSpec(name=name, axes="EFD", shape=(11, 4, 6), role="expert")
        located, out = Located(name=name, spec=spec, pieces=pieces), torch.empty(11, 4, 6)
        assert located.stacked and located.shape == (11, 4, 6)
        loading.fill(tmp_path, located, "", out)
        assert torch.equal(out, torch.stack(list(sources.values()))[:, 4 * i : 4 * i + 4])


def test_a_part_of_a_packed_weight_is_refused(tmp_path: Path) -> None:
    release = Release.open(checkpoint("qwen3_moe-fp8"))
    located = next(one for one in release.layer(0).values() if one.format == "fp8_block")
    piece, entry = located.pieces[0]
    cut = Located(name="w", spec=located.spec, pieces=((piece.__class__(source=piece.source, cut=Cut(target="w", of=2)), entry),))
    with pytest.raises(Day0Error, match="cannot be cut"):
        loading.fill(release.folder, cut, "data", torch.empty(entry.shape, dtype=torch.float8_e4m3fn))
