"""What is read as columns is what is read entry by entry: whatever the header, and whatever the index."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from day0.checkpoint import directory
from day0.checkpoint.banks import Folded, fold
from day0.checkpoint.columns import WORD, alike
from day0.checkpoint.folder import Checkpoint
from day0.checkpoint.headers import read_shard
from day0.checkpoint.sweep import sweep
from tests.checkpoint.shards import entries, write_header, write_release

relaxed = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
words = st.sampled_from(["layers", "experts", "w1", "w2", "weight", "0", "1", "7", "10", "007", "-1", "1e3", "shard_3", "1" * 21, "é"])
names = st.lists(words, min_size=1, max_size=6).map(".".join)
kinds = st.tuples(st.sampled_from(["F32", "BF16", "U8", "F4"]), st.lists(st.sampled_from([0, 2, 10, 16]), max_size=3))
tensors = st.dictionaries(names, kinds, min_size=1, max_size=24)
BANKS = {f"layers.{i}.experts.{e}.{w}": ("BF16", [4, 2]) for i in (0, 11) for e in range(12) for w in ("w1", "w2")}


def swept(folder: Path, *files: str) -> dict[str, object] | None:
    found = sweep(folder, files)
    folded = fold(files, found.tensors, found.rows)
    return None if folded is None else dict(folded)


@relaxed
@given(tensors=tensors, separators=st.sampled_from([(",", ":"), (", ", ": ")]), order=st.randoms(use_true_random=False))
def test_a_header(tmp_path: Path, tensors: dict, separators: tuple[str, str], order) -> None:
    header, size = entries(tensors)
    items = list(header.items())
    order.shuffle(items)
    write_header(tmp_path / "x.safetensors", json.dumps(dict(items), separators=separators), size)
    slow = read_shard(tmp_path, "x.safetensors")
    found = sweep(tmp_path, ("x.safetensors",))
    if found.shards:
        shard = found.shards["x.safetensors"]
        assert slow.findings == () and swept(tmp_path, "x.safetensors") == slow.tensors
        assert (shard.count, shard.digest, shard.size, shard.readable) == (len(slow.tensors), slow.digest, slow.size, True)


def test_sound_headers_are_read_at_one_sight(tmp_path: Path) -> None:
    header, size = entries({**BANKS, "embed.weight": ("F32", [3, 5]), "layers.0.norm.weight": ("F32", [3])})
    write_header(tmp_path / "x.safetensors", json.dumps({"__metadata__": {"format": "pt"}, **header}), size)
    found = sweep(tmp_path, ("x.safetensors",))
    assert found.shards.keys() == {"x.safetensors"} and len(found.tensors) == 2
    assert swept(tmp_path, "x.safetensors") == read_shard(tmp_path, "x.safetensors").tensors


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text.replace('"BF16"', '"BF17"', 1), lambda text: text.replace("[0, 16]", "[00, 16]"),
        lambda text: text.replace("[4, 2]", "[04, 2]", 1), lambda text: text.replace("[16, 32]", "[0, 16]"),
        lambda text: text.replace("experts.1.w1", "experts.0.w1", 1), lambda text: text.replace('"dtype"', '"dtypo"', 1),
        lambda text: text.replace("[16, 32]", "[16, 31]"), lambda text: text.replace("[16, 32]", "[17, 33]"),
        lambda text: text.replace('"layers.0.experts.0.w1"', '"layers.0.experts.0.w\\u0031"', 1), lambda text: text[:-1], lambda text: text + "}",
        lambda text: text.replace("layers.0", "__metadata__", 1), lambda text: text.replace("{", '{"__metadata__": {"a": 1}, ', 1),
        lambda text: text.replace("{", '{"__metadata__": {"a": "1", "a": "2"}, ', 1), lambda text: text.replace("4, 2", "4, 2, ", 1),
        lambda text: text.replace("layers.0.experts.0.w1", "layers.0.\x07.0.w1", 1), lambda text: text.replace("}, ", "} , ", 1),
    ],
)  # fmt: skip
def test_odd_headers_get_the_close_look(tmp_path: Path, edit) -> None:
    """Each is one that parsers take for something else, or that has a finding: none may pass at first sight as another header."""
    header, size = entries(BANKS)
    text = edit(json.dumps(header))
    write_header(tmp_path / "x.safetensors", text, size)
    found, slow = sweep(tmp_path, ("x.safetensors",)), read_shard(tmp_path, "x.safetensors")
    folded = swept(tmp_path, "x.safetensors")
    assert not found.shards or folded is None or (slow.findings == () and folded == slow.tensors)
    assert (slow.findings == ()) or not found.shards or folded is None


@pytest.mark.parametrize("mark", ["[", "]", "{", "}", "},", ":", ", "])
def test_marks_of_json_inside_of_strings(tmp_path: Path, mark: str) -> None:
    """They part no entries: read at one sight or closely, the tensors are those that were written."""
    header, size = entries({**BANKS, f"layers.0.{mark}.weight": ("F32", [3]), "scale": ("F32", [])})
    write_header(tmp_path / "x.safetensors", json.dumps({"__metadata__": {"format": f"p{mark}t"}, **header}), size)
    slow, found = read_shard(tmp_path, "x.safetensors"), sweep(tmp_path, ("x.safetensors",))
    assert slow.tensors.keys() == header.keys() and slow.findings == ()
    assert not found.shards or swept(tmp_path, "x.safetensors") == slow.tensors


lines = st.text("019ab.", min_size=1, max_size=20)


@relaxed
@given(texts=st.lists(lines, min_size=1, max_size=60))
def test_entries_that_are_alike(texts: list[str]) -> None:
    """Together are those whose texts are equal after all digits are replaced by one, in the order of the text."""
    stops = np.cumsum([len(text) for text in texts])
    groups = alike("".join(texts).encode() + bytes(WORD), np.append(0, stops[:-1]), stops)
    expected: dict[str, list[int]] = {}
    for place, text in enumerate(texts):
        expected.setdefault(re.sub("[0-9]", "0", text), []).append(place)
    assert groups is not None
    assert [group.places.tolist() for group in groups] == [*expected.values()]
    assert all(group.text(which).decode() == texts[place] for group in groups for which, place in enumerate(group.places.tolist()))


@relaxed
@given(weight_map=st.dictionaries(names, st.sampled_from(["a-1.safetensors", "a-2.safetensors", "b.safetensors"]), min_size=1, max_size=24),
       indent=st.sampled_from([None, 2]), total=st.integers(0, 10**15))  # fmt: skip
def test_an_index(weight_map: dict[str, str], indent: int | None, total: int) -> None:
    text = json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}, indent=indent).encode()
    found = directory.read(text)
    if found:
        assert dict(found[0]) == weight_map and found[1]["metadata"] == {"total_size": total}
        assert found[0].files == tuple(sorted(set(weight_map.values())))


@pytest.mark.parametrize("indent", [None, 2])
def test_an_index_is_read_at_one_sight(indent: int | None) -> None:
    weight_map = {name: f"model-{i % 3:05d}-of-00003.safetensors" for i, name in enumerate(BANKS)}
    found = directory.read(json.dumps({"weight_map": weight_map}, indent=indent).encode())
    assert found and dict(found[0]) == weight_map


def test_a_release_is_a_mapping_of_tensors(tmp_path: Path) -> None:
    """Banks answer by name as a dictionary would."""
    write_release(tmp_path, [BANKS, {"layers.0.experts.12.w1": ("BF16", [4, 2]), "layers.5.experts.3.w1": ("F32", [4, 2]), "a": ("F32", [1])}])
    headers = Checkpoint.open(tmp_path).headers
    assert isinstance(headers, Folded) and len(headers.banks) == 2 and len(headers) == len(BANKS) + 3
    assert set(headers) == {*BANKS, "layers.0.experts.12.w1", "layers.5.experts.3.w1", "a"}
    assert {name: header.name for name, header in headers.items()} == {name: name for name in headers}
    assert [header.dtype for header in headers.values()].count("F32") == 2
    for name in ("layers.0.experts.12.w2", "layers.0.experts.012.w1", "layers.1.experts.3.w1", "b", ""):
        assert name not in headers and headers.get(name) is None
    assert headers["layers.11.experts.3.w2"] == read_shard(tmp_path, "model-00001-of-00002.safetensors").tensors["layers.11.experts.3.w2"]
