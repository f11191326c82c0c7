"""Packed weights in the engine: cut while they are read, planned to the byte, decoded one at a time into one workspace."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from day0.checkpoint.folder import Checkpoint
from day0.engine import footprint, loading
from day0.engine.packed import Workspace
from day0.engine.release import Located, Release
from day0.spec.dtype import size
from day0.spec.errors import Day0Error
from day0.spec.model import TensorSpec
from day0.spec.names import Cut, Piece
from day0.spec.packed import Packed
from tests.engine.opened import expected, logits, start
from tests.zoo import checkpoint, every
from tests.zoo.experts import Experts
from tests.zoo.family import catalog

CPU = torch.device("cpu")
PACKED = [name for name in every() if name == "kimi_k3-mxfp4" or (name in catalog() and catalog()[name].packing)]


def drawn(*shape: int, low: int = 0, high: int = 256) -> Tensor:
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(sum(shape))).to(torch.uint8)


def int32(*shape: int) -> Tensor:
    return torch.randint(-(2**31), 2**31, shape, generator=torch.Generator().manual_seed(sum(shape))).int()


def released(folder: Path, tensors: Mapping[str, Tensor], quantization: Mapping[str, object] | None = None) -> Checkpoint:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "none", "quantization_config": quantization or {}}))
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    return Checkpoint.open(folder)


def located(checkpoint: Checkpoint, shape: tuple[int, ...], cut: Cut | None, names: tuple[str, ...] = ()) -> Located:
    """The canonical tensor that is cut out of the only weight of a release, or stacked from several."""
    spec = TensorSpec(name="x", axes="EFD"[-len(shape) :], shape=shape, role="expert" if len(shape) == 3 else "linear")
    stack = names or tuple(checkpoint.stored)
    pieces = [(Piece(source=name, expert=i if names else None, cut=cut), checkpoint.stored[name]) for i, name in enumerate(stack)]
    return Located(name="x", spec=spec, pieces=tuple(pieces))


def loaded(checkpoint: Checkpoint, weight: Located) -> Packed:
    """In memory as the footprint lays it out; every byte of the layout is used."""
    layout = footprint.buffer({"x": weight}, "float32")
    buffer = torch.zeros(layout.bytes, dtype=torch.uint8)
    tensors = loading.views(buffer, layout)
    for (_, part), tensor in tensors.items():
        loading.fill(checkpoint.folder, weight, part, tensor)
    loading.confirm(checkpoint.folder, weight, {part: tensor for (_, part), tensor in tensors.items()})
    found: Packed = loading.assemble({"x": weight}, tensors, torch.float32).x
    assert sum(part.nbytes for part in found.parts.values()) == sum(s.bytes for s in layout.slices)
    return found


def whole(checkpoint: Checkpoint, name: str) -> Tensor:
    return loading.decoded(checkpoint.folder, checkpoint.stored[name], torch.float32)


def banks(folder: Path, kind: str) -> Checkpoint:
    """Three experts of 128 outputs and 64 inputs, in one tensor."""
    scale = drawn(3, 128, 2, low=110, high=130)
    tensors = {
        "mxfp4": {"x_blocks": drawn(3, 128, 2, 16), "x_scales": scale},
        "nvfp4": {"x.weight": drawn(3, 128, 32), "x.weight_scale": drawn(3, 128, 4, low=50, high=90).view(torch.float8_e4m3fn),
                  "x.weight_scale_2": torch.tensor([0.5, 2.0, 3.0])},
        "mxfp8": {"x.weight": drawn(3, 128, 64, high=120).view(torch.float8_e4m3fn), "x.weight_scale": scale},
        "fp8": {"x.weight": drawn(3, 128, 64, high=120).view(torch.float8_e4m3fn), "x.weight_scale": torch.rand(3, 128, 1)},
        "fp8_block": {"x.weight": drawn(3, 128, 64, high=120).view(torch.float8_e4m3fn), "x.weight_scale_inv": torch.rand(3, 2, 1)},
    }[kind]  # fmt: skip
    return released(folder, tensors, {"weight_block_size": [64, 64]})


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("kind", ["mxfp4", "nvfp4", "mxfp8", "fp8", "fp8_block"])
def test_gate_and_up_of_a_bank(tmp_path: Path, kind: str, interleaved: bool) -> None:
    checkpoint = banks(tmp_path, kind)
    (name,) = checkpoint.stored
    full = whole(checkpoint, name)
    for part in range(2):
        weight = located(checkpoint, (3, 64, 64), Cut(target="x", axis=1, part=part, of=2, interleaved=interleaved))
        if kind == "fp8_block" and interleaved:
            with pytest.raises(Day0Error, match="cannot be cut"):
                footprint.at_rest(weight, "float32")
            continue
        packed = loaded(checkpoint, weight)
        rows = slice(part, None, 2) if interleaved else slice(64 * part, 64 * part + 64)
        for e in range(3):
            assert torch.equal(packed.expert(e).decode(torch.empty(64, 64)), full[e, rows])


def matrix(folder: Path, kind: str) -> Checkpoint:
    """48 outputs and 64 inputs."""
    tensors = {
        "int4": {"x.weight_packed": int32(48, 8), "x.weight_scale": torch.rand(48, 2), "x.weight_shape": torch.tensor([48, 64]),
                 "x.weight_zero_point": int32(6, 2)},
        "awq": {"x.qweight": int32(64, 6), "x.qzeros": int32(2, 6), "x.scales": torch.rand(2, 48).half()},
        "gptq": {"x.qweight": int32(8, 48), "x.qzeros": int32(2, 6), "x.scales": torch.rand(2, 48).half(),
                 "x.g_idx": torch.randint(0, 2, (64,)).int()},
    }[kind]  # fmt: skip
    return released(folder, tensors)


@pytest.mark.parametrize("kind", ["int4", "awq", "gptq"])
def test_parts_of_a_matrix(tmp_path: Path, kind: str) -> None:
    """Three parts of 16 outputs; five, or alternating ones, do not end where a word of zeros does."""
    checkpoint = matrix(tmp_path, kind)
    full = whole(checkpoint, "x.weight")
    for part in range(3):
        packed = loaded(checkpoint, located(checkpoint, (16, 64), Cut(target="x", part=part, of=3)))
        assert torch.equal(packed.decode(torch.empty(16, 64)), full[16 * part : 16 * part + 16])
    for cut in (Cut(target="x", of=12), Cut(target="x", of=2, interleaved=True), Cut(target="x", axis=1, of=2)):
        with pytest.raises(Day0Error, match="cannot be cut"):
            footprint.at_rest(located(checkpoint, (4, 64), cut), "float32")


@pytest.mark.parametrize("kind", ["mxfp4", "mxfp8"])
def test_turned_weights(tmp_path: Path, kind: str) -> None:
    """Stored as [in, out], two of them side by side along the outputs is beyond a format of groups of columns; one alone is turned."""
    checkpoint = banks(tmp_path, kind)
    (name,) = checkpoint.stored
    packed = loaded(checkpoint, located(checkpoint, (3, 64, 128), Cut(target="x", transpose=True)))
    for e in range(3):
        assert torch.equal(packed.expert(e).decode(torch.empty(64, 128)), whole(checkpoint, name)[e].T)


def test_the_shape_that_headers_leave_open(tmp_path: Path) -> None:
    """60 inputs fill seven words and a half: `weight_shape` says so, and must."""
    tensors = {"x.weight_packed": int32(5, 8), "x.weight_scale": torch.rand(5, 1), "x.weight_shape": torch.tensor([5, 60])}
    checkpoint = released(tmp_path, tensors)
    weight = located(checkpoint, (5, 60), None)
    assert weight.shape == (5, 60)
    assert torch.equal(loaded(checkpoint, weight).decode(torch.empty(5, 60)), whole(checkpoint, "x.weight"))
    damaged = released(tmp_path / "damaged", tensors | {"x.weight_shape": torch.tensor([5, 61])})
    with pytest.raises(Day0Error, match=r"x\.weight: weight_shape says \[5, 61\]"):
        loaded(damaged, located(damaged, (5, 60), None))


def test_groups_that_are_not_there(tmp_path: Path) -> None:
    tensors = {"x.qweight": int32(8, 16), "x.qzeros": int32(2, 2), "x.scales": torch.rand(2, 16), "x.g_idx": torch.full((64,), 2).int()}
    checkpoint = released(tmp_path, tensors)
    with pytest.raises(Day0Error, match=r"x\.weight: g_idx speaks of groups 2 to 2, there are 2"):
        whole(checkpoint, "x.weight")


def test_experts_that_are_stored_differently(tmp_path: Path) -> None:
    """A stack takes the layout of its first expert; another one with other companions is refused, not read as bytes."""
    def expert(e: int, kind: torch.dtype) -> dict[str, Tensor]:
        return {f"{e}.weight": drawn(8, 16).view(torch.float8_e4m3fn), f"{e}.weight_scale": torch.rand(8, 1).to(kind)}

    alike = released(tmp_path / "a", expert(0, torch.float32) | expert(1, torch.float32))
    other = released(tmp_path / "b", expert(0, torch.float32) | expert(1, torch.bfloat16))
    assert located(alike, (2, 8, 16), None, ("0.weight", "1.weight")).odd is None
    odd = located(other, (2, 8, 16), None, ("0.weight", "1.weight")).odd
    assert odd is not None and odd.name == "1.weight"


class Allocations(TorchDispatchMode):
    """Bytes of the largest tensor that an operation made in memory of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        given = {value.untyped_storage().data_ptr() for value in args if isinstance(value, Tensor)}
        found = function(*args, **(kwargs or {}))
        for value in found if isinstance(found, tuple | list) else (found,):
            if isinstance(value, Tensor) and value.untyped_storage().data_ptr() not in given:
                self.largest = max(self.largest, value.untyped_storage().nbytes())
        return found


@pytest.mark.parametrize("kind", ["mxfp4", "mxfp8", "nvfp4", "int4", "awq", "gptq", "fp8"])
def test_decoding_allocates_little(kind: str) -> None:
    """A matrix that is larger by far is decoded stripe by stripe."""
    from tests.checkpoint.drawn import sample

    parts, (rows, columns), block = sample(kind)
    times, turned = 700, kind in ("awq", "gptq")
    many = {name: value if value.numel() == 1 else _tiled(value, *((1, times) if turned else (times, 1))) for name, value in parts.items()}
    out = torch.empty(rows * times, columns)
    packed = Packed(kind, many, block, tuple(out.shape), torch.float32)
    with Allocations() as seen:
        packed.decode(out)
    assert 0 < seen.largest <= 4 << 20 < out.nbytes // 2


def _tiled(value: Tensor, down: int, across: int) -> Tensor:
    bytes_of = value.view(torch.uint8) if value.element_size() == 1 else value
    return bytes_of.repeat(down, across).view(value.dtype)


@pytest.mark.parametrize("name", PACKED)
def test_one_workspace_as_planned(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Experts rest as they are stored; the engine makes one workspace of the planned size and never another."""
    made: list[int] = []
    original = Workspace.__init__

    def counted(self: Workspace, size: int, device: torch.device) -> None:
        made.append(size)
        original(self, size, device)

    monkeypatch.setattr(Workspace, "__init__", counted)
    engine = start(checkpoint(name))
    targets: set[int] = set()
    decode = Packed.decode
    monkeypatch.setattr(Packed, "decode", lambda self, out: targets.add(out.untyped_storage().data_ptr()) or decode(self, out))
    logits(engine, expected(checkpoint(name)).first(40).prompts, decode_from=20)
    assert len(targets) == 1, "every call converts into the one workspace"
    release = Release.open(checkpoint(name))
    planned = footprint.workspace(release, "float32")
    assert made == [planned] and engine.account()["workspace"] == planned
    bank = next(weight for weight in release.tensors.values() if weight.spec.role == "expert")
    per_expert = size("float32", bank.spec.count // bank.spec.shape[0])
    if only_experts(name):
        assert 3 * per_expert <= planned <= 3 * footprint.aligned(per_expert)
    stored = sum(header.bytes for _, piece in bank.pieces for header in piece.kept.values())
    rest = sum(size(kind, torch.Size(shape).numel()) for _, kind, shape in footprint.at_rest(bank, "float32"))
    assert rest == stored < size("float32", bank.spec.count) / 3


def only_experts(name: str) -> bool:
    """Whether experts are all that is packed, so that the three matrices of one are all that is decoded at a time."""
    return name == "kimi_k3-mxfp4" or isinstance(catalog()[name].packing, Experts)


def test_the_workspace_is_used_again() -> None:
    """Every call decodes into the same bytes: gate, up and down side by side, each expert where the last one was."""
    scale = drawn(2, 4, 1, low=120, high=130)
    bank = Packed("mxfp4", {"data": drawn(2, 4, 16), "scale": scale}, (1, 32), (2, 4, 32), torch.float32, bank=True)
    space = Workspace(2 * footprint.aligned(4 * 32 * 4), CPU)
    places = set()
    for _ in range(3):
        space.rewind()
        gate, up = space.decoded(bank), space.decoded(bank)
        places |= {(gate[e].data_ptr(), up[e].data_ptr()) for e in range(2)}
    ((first, second),) = places
    assert second - first == footprint.aligned(4 * 32 * 4)
