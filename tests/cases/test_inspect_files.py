"""Copies that came damaged, as they were met in public: what `day0 inspect` says, about what, and its exit code."""

import json
import os
from pathlib import Path

import pytest

from tests.cases.inspected import Inspected, folder, tensors_of, write
from tests.checkpoint.shards import entries, shard_name, write_header, write_index, write_shard

__all__ = ["folder"]
UP = "model.layers.1.mlp.up_proj.weight"


def test_a_sound_copy(folder: Path) -> None:
    write(folder, "llama")
    inspected = Inspected(folder)
    assert (inspected.code, inspected.told) == (0, [])


def test_a_shard_of_the_index_is_absent(folder: Path) -> None:
    """Loaders that take the files they find leave its weights uninitialised."""
    weight_map = write(folder, "llama", shards=3)
    gone = shard_name(3, 3)
    size = (folder / gone).stat().st_size
    (folder / gone).unlink()
    inspected = Inspected(folder)
    assert (inspected.code, inspected.told) == (1, [("D0203", "fail", gone)])
    count = list(weight_map.values()).count(gone)
    said = inspected.found("D0203")
    assert f"{count} tensors" in said and "download not finished?" in said
    held = sum(int(word) for word in said.replace("(", " ").split() if word.isdigit() and int(word) > 1000)
    assert 0 < held < size


def test_an_index_of_another_revision_names_a_tensor_that_is_nowhere(folder: Path) -> None:
    weight_map = write(folder, "llama")
    write_index(folder, weight_map | {"mtp.fc.weight": shard_name(2, 2)}, 0)
    inspected = Inspected(folder)
    assert (inspected.code, inspected.told) == (1, [("D0205", "fail", "mtp.fc.weight")])


def test_an_index_of_another_revision_names_another_shard(folder: Path) -> None:
    weight_map = write(folder, "llama")
    (other,) = set(weight_map.values()) - {weight_map[UP]}
    write_index(folder, weight_map | {UP: other}, 0)
    inspected = Inspected(folder)
    assert (inspected.code, inspected.told) == (0, [("D0206", "warn", UP)]) and weight_map[UP] in inspected.found("D0206")


def test_a_tensor_that_the_index_does_not_name(folder: Path) -> None:
    weight_map = write(folder, "llama")
    write_index(folder, {name: file for name, file in weight_map.items() if name != UP}, 0)
    inspected = Inspected(folder)
    assert (inspected.code, inspected.told) == (0, [("D0208", "warn", UP)])


def test_a_second_copy_in_four_bits_beside_the_shards(folder: Path) -> None:
    """The index decides; the stray file is named with its size, and memory is counted once."""
    write(folder, "llama")
    alone = Inspected(folder).report
    half = {name: ("U8", [*shape[:-1], shape[-1] // 2]) for name, (_, shape) in tensors_of("llama").items()}
    write_shard(folder / "model.safetensors", half)
    inspected = Inspected(folder)
    assert (inspected.code, inspected.told) == (0, [("D0211", "warn", "model.safetensors")])
    assert f"ignored: {(folder / 'model.safetensors').stat().st_size} bytes" in inspected.found("D0211")
    assert (inspected.report.bytes, inspected.report.parameters) == (alone.bytes, alone.parameters)


@pytest.mark.parametrize(("differ", "code", "status"), [(True, 1, "fail"), (False, 0, "warn")])
def test_one_tensor_in_two_shards(folder: Path, differ: bool, code: int, status: str) -> None:
    """One loader refuses the release, another lets the last copy win."""
    weight_map = write(folder, "qwen3_moe")
    name = next(name for name in weight_map if "experts.0.up_proj" in name)
    first, second = weight_map[name], shard_name(2, 2)
    tensors = tensors_of("qwen3_moe")
    alone = Inspected(folder).report.parameters
    write_shard(folder / second, {key: tensors[key] for key, file in weight_map.items() if file == second} | {name: tensors[name]})
    write_index(folder, weight_map | {name: second}, 0)
    if differ:
        with open(folder / second, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"\1")
    inspected = Inspected(folder)
    assert (inspected.code, inspected.told) == (code, [("D0207", status, name)]) and first != second
    said = inspected.found("D0207")
    assert first in said and f"the index picks {second}" in said and ("differ" if differ else "equal") in said
    assert inspected.report.parameters == alone


def test_a_head_of_zeros(folder: Path) -> None:
    """An upload wrote sparse blocks: the other shard is still read."""
    weight_map = write(folder, "llama")
    with open(folder / shard_name(1, 2), "r+b") as file:
        file.write(bytes(4096))
    inspected = Inspected(folder)
    assert (inspected.code, inspected.told) == (1, [("D0101", "fail", shard_name(1, 2))])
    assert "zero-filled" in inspected.found("D0101") and "JSON" not in inspected.found("D0101")
    assert [file.tensors for file in inspected.report.files] == [0, list(weight_map.values()).count(shard_name(2, 2))]


@pytest.mark.parametrize(("change", "code", "told"), [(16, 0, ("D0113", "warn")), (-7, 1, ("D0110", "fail"))])
def test_bytes_too_many_are_not_called_truncation(folder: Path, change: int, code: int, told: tuple[str, str]) -> None:
    write(folder, "llama")
    path = folder / shard_name(2, 2)
    os.truncate(path, path.stat().st_size + change)
    inspected = Inspected(folder)
    assert (inspected.code, inspected.told) == (code, [(*told, path.name)])
    assert ("truncated" in inspected.found(told[0])) == (change < 0) and f"{abs(change)} bytes" in inspected.found(told[0])


def damaged(folder: Path, header: dict[str, object] | str, data: int) -> Inspected:
    """A sound release with one more file of weights, which its index names."""
    weight_map = write(folder, "llama", shards=1)
    text = header if isinstance(header, str) else json.dumps(header)
    write_header(folder / "odd.safetensors", text, data)
    write_index(folder, weight_map | dict.fromkeys(json.loads(text), "odd.safetensors"), 0)
    return Inspected(folder)


def of(inspected: Inspected) -> list[tuple[str, str, str]]:
    """Without the word that nothing in the model reads the tensor."""
    return [told for told in inspected.told if told[0] not in ("D0303", "D0209")]


@pytest.mark.parametrize(
    ("shape", "offsets", "words"),
    [
        ([1000, 1000], [0, 4], ("4000000 bytes", "4 bytes")), ([1], [8, 4], ("begin <= end", "[8, 4]")),
        ([1], [-4, 0], ("begin", "[-4, 0]")), ([2**40, 2**40], [0, 4], (str(4 * 2**80), "4 bytes")),
    ],
)  # fmt: skip
def test_offsets_that_contradict_the_shape(folder: Path, shape: list[int], offsets: list[int], words: tuple[str, ...]) -> None:
    inspected = damaged(folder, {"t": {"dtype": "F32", "shape": shape, "data_offsets": offsets}}, 4)
    assert (inspected.code, of(inspected)[:1]) == (1, [("D0108", "fail", "t")])
    assert all(word in inspected.found("D0108") for word in words)


def test_a_header_length_beyond_the_file(folder: Path) -> None:
    write(folder, "llama", shards=1)
    (folder / shard_name(1, 1)).write_bytes((200 << 20).to_bytes(8, "little") + bytes(1016))
    inspected = Inspected(folder)
    assert (inspected.code, inspected.told[:1]) == (1, [("D0102", "fail", shard_name(1, 1))]) and str(200 << 20) in inspected.found("D0102")


def test_new_number_types(folder: Path) -> None:
    """Those of safetensors have exact sizes; one that nobody knows is kept, and its range is checked all the same."""
    header, size = entries({"scale": ("F8_E8M0", [3, 5]), "codes": ("F4", [3, 6])})
    assert of(damaged(folder / "known", header, size)) == []
    odd = {"codes": {"dtype": "F4", "shape": [2, 3], "data_offsets": [0, 3]}}
    assert of(damaged(folder / "odd", odd, 3))[:1] == [("D0108", "fail", "codes")]
    new = {"a": {"dtype": "F7_NEW", "shape": [8], "data_offsets": [0, 8]}}
    assert of(damaged(folder / "new", new, 8)) == [("D0107", "unknown", "a")]
    outside = {"b": {"dtype": "F7_NEW", "shape": [8], "data_offsets": [10**18, 10**18 + 8]}}
    assert of(damaged(folder / "outside", outside, 8))[:2] == [("D0107", "unknown", "b"), ("D0109", "fail", "b")]


K, V = "k_proj.weight", "v_proj.weight"
TWO, SIZE = entries({K: ("F32", [4]), V: ("F32", [4])})


def test_a_name_twice_in_one_header(folder: Path) -> None:
    text = json.dumps(TWO).replace(V, K)
    inspected = damaged(folder, text, SIZE)
    assert (inspected.code, ("D0104", "fail", K) in inspected.told) == (1, True) and "duplicate key" in inspected.found("D0104")


def test_two_tensors_share_their_bytes(folder: Path) -> None:
    inspected = damaged(folder, {K: TWO[K], V: TWO[K]}, 16)
    assert (inspected.code, of(inspected)) == (1, [("D0111", "fail", f"{K} / {V}")]) and "overlap" in inspected.found("D0111")


def test_a_hole_between_two_tensors(folder: Path) -> None:
    later = {**TWO[V], "data_offsets": [24, 40]}
    inspected = damaged(folder, {K: TWO[K], V: later}, 40)
    assert (inspected.code, of(inspected)) == (1, [("D0112", "fail", V)]) and "hole of 8 bytes" in inspected.found("D0112")


def test_a_header_padded_with_nul(folder: Path) -> None:
    write(folder, "llama", shards=1)
    path = folder / shard_name(1, 1)
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    path.write_bytes((length + 3).to_bytes(8, "little") + raw[8 : 8 + length] + bytes(3) + raw[8 + length :])
    inspected = Inspected(folder)
    assert (inspected.code, inspected.told) == (1, [("D0105", "fail", path.name)]) and "NUL" in inspected.found("D0105")


def test_the_order_of_entries_is_free(folder: Path) -> None:
    inspected = damaged(folder, dict(reversed(TWO.items())), SIZE)
    assert of(inspected) == []


def test_weights_in_another_container(folder: Path) -> None:
    write(folder, "llama", shards=1)
    (folder / shard_name(1, 1)).unlink()
    (folder / "model.safetensors.index.json").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"x")
    (folder / "pytorch_model.bin.index.json").write_text('{"weight_map": {}}')
    inspected = Inspected(folder)
    assert (inspected.code, inspected.told[0]) == (1, ("D0201", "fail", "model"))
    assert "no safetensors file" in inspected.found("D0201") and "pytorch_model.bin" in inspected.found("D0201")


def test_a_template_in_a_file_of_its_own(folder: Path) -> None:
    write(folder, "llama")
    settings = json.loads((folder / "tokenizer_config.json").read_text()) if (folder / "tokenizer_config.json").exists() else {}
    settings.pop("chat_template", None)
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    inspected = Inspected(folder)
    assert (inspected.code, inspected.told) == (0, []) and inspected.report.template
    assert inspected.report.template.file == "chat_template.jinja"
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "chat_template": "another"}))
    both = Inspected(folder)
    assert (both.code, both.told) == (0, [("D0308", "warn", "chat_template.jinja")])
