"""Rules of shard files: each fault is one finding with its code and subject; sound files have none."""

import json
import os
import random
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from day0.checkpoint.headers import read_shard
from day0.spec.registry import checks
from tests.checkpoint.shards import entries, only, told, write_header, write_shard

TWO = {"k_proj": ("BF16", [4, 8]), "v_proj": ("F32", [4, 8])}


def findings(folder: Path, header: str | dict, data: int = 0):
    write_header(folder / "x.safetensors", header if isinstance(header, str) else json.dumps(header), data)
    return read_shard(folder, "x.safetensors").findings


def test_reads_what_safetensors_wrote(tmp_path: Path) -> None:
    tensors = {"b": torch.arange(6).reshape(2, 3).float(), "a": torch.ones(5, dtype=torch.bfloat16)}
    tensors |= {"empty": torch.zeros(0, 4), "one": torch.tensor(2.0)}
    save_file(tensors, tmp_path / "x.safetensors", metadata={"format": "pt"})
    shard = read_shard(tmp_path, "x.safetensors")
    raw = (tmp_path / "x.safetensors").read_bytes()
    assert shard.findings == ()
    assert {name: header.shape for name, header in shard.tensors.items()} == {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    b = shard.tensors["b"]
    assert raw[b.start : b.end] == tensors["b"].numpy().tobytes() and b.dtype == "F32"


def test_order_of_entries_is_free(tmp_path: Path) -> None:
    header, size = entries({f"t{i}": ("F32", [i]) for i in range(1, 30)})
    shuffled = list(header.items())
    random.Random(0).shuffle(shuffled)
    assert findings(tmp_path, dict(shuffled), size) == ()


@pytest.mark.parametrize(
    ("cut", "tail", "code", "status", "word"), [(7, 0, "D0110", "fail", "7 bytes"), (0, 16, "D0113", "warn", "16 bytes after")]
)
def test_length_of_the_file(tmp_path: Path, cut: int, tail: int, code: str, status: str, word: str) -> None:
    write_shard(tmp_path / "x.safetensors", TWO, cut=cut, tail=tail)
    finding = only(read_shard(tmp_path, "x.safetensors").findings)
    assert told([finding]) == [(code, status, "x.safetensors")]
    assert word in finding.found and ("truncated" in finding.found) == (code == "D0110")


def test_a_truncated_shard_keeps_its_structure(tmp_path: Path) -> None:
    write_shard(tmp_path / "x.safetensors", TWO, cut=7)
    assert read_shard(tmp_path, "x.safetensors").tensors.keys() == TWO.keys()


def test_zero_filled_head(tmp_path: Path) -> None:
    size = write_shard(tmp_path / "x.safetensors", {"w": ("F32", [64, 64])})
    with open(tmp_path / "x.safetensors", "r+b") as file:
        file.write(bytes(4096))
    shard = read_shard(tmp_path, "x.safetensors")
    assert told(shard.findings) == [("D0101", "fail", "x.safetensors")] and shard.size > size
    assert "zero-filled" in only(shard.findings).found


def test_a_header_of_zeros_behind_a_true_length(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes((64).to_bytes(8, "little") + bytes(200))
    assert told(read_shard(tmp_path, "x.safetensors").findings) == [("D0101", "fail", "x.safetensors")]


@pytest.mark.parametrize("length", [200 << 20, 2**63, 2**64 - 1, 1100])
def test_header_length_beyond_the_file(tmp_path: Path, length: int) -> None:
    (tmp_path / "x.safetensors").write_bytes(length.to_bytes(8, "little") + bytes(1024))
    finding = only(read_shard(tmp_path, "x.safetensors").findings)
    assert told([finding]) == [("D0102", "fail", "x.safetensors")] and str(length) in finding.found


def test_header_above_the_limit_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes((150_000_000).to_bytes(8, "little"))
    os.truncate(path, 1 << 30)
    assert told(read_shard(tmp_path, "x.safetensors").findings) == [("D0102", "fail", "x.safetensors")]


@pytest.mark.parametrize(
    "text", ["{", "[]", "3", '{"a":', "\x00\x01", "[" * 100_000, '{"a": 1e999}', '{"a": NaN}', '{"a":' + "9" * 5000 + "}"]
)
def test_header_that_is_no_header(tmp_path: Path, text: str) -> None:
    assert told(findings(tmp_path, text)) == [("D0103", "fail", "x.safetensors")]


def test_header_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "x.safetensors").write_bytes((5).to_bytes(8, "little") + b'{"\xff":')
    assert told(read_shard(tmp_path, "x.safetensors").findings) == [("D0103", "fail", "x.safetensors")]


@pytest.mark.parametrize("content", [b"", b"\1\2\3"])
def test_file_too_short_for_a_length(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.safetensors").write_bytes(content)
    assert told(read_shard(tmp_path, "x.safetensors").findings) == [("D0101", "fail", "x.safetensors")]


def test_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "folder.safetensors").mkdir()
    os.mkfifo(tmp_path / "pipe.safetensors")
    for name in ("folder.safetensors", "pipe.safetensors", "absent.safetensors"):
        assert told(read_shard(tmp_path, name).findings) == [("D0101", "fail", name)]


@pytest.mark.parametrize(
    ("entry", "word"),
    [
        ({"dtype": "F32", "shape": [1000, 1000], "data_offsets": [0, 4]}, "4000000 bytes"),
        ({"dtype": "F32", "shape": [1], "data_offsets": [8, 4]}, "0 <= begin <= end"),
        ({"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}, "0 <= begin <= end"),
        ({"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 4]}, str(4 * 2**80)),
        ({"dtype": "F4", "shape": [2, 3], "data_offsets": [0, 3]}, "whole bytes"),
        ({"dtype": "F4", "shape": [2, 4], "data_offsets": [0, 8]}, "4 bytes"),
    ],
)
def test_size_against_shape(tmp_path: Path, entry: dict, word: str) -> None:
    finding = only(findings(tmp_path, {"t": entry}, 8))
    assert told([finding]) == [("D0108", "fail", "t")] and word in finding.expected
    assert read_shard(tmp_path, "x.safetensors").tensors == {}


def test_new_dtypes_have_exact_sizes(tmp_path: Path) -> None:
    header, size = entries({"scale": ("F8_E8M0", [3, 5]), "codes": ("F4", [3, 6])})
    assert size == 15 + 9 and findings(tmp_path, header, size) == ()


def test_unknown_dtype_is_kept_and_its_range_is_checked(tmp_path: Path) -> None:
    inside = {"dtype": "F7_NEW", "shape": [8], "data_offsets": [0, 8]}
    outside = {"dtype": "F7_NEW", "shape": [8], "data_offsets": [10**18, 10**18 + 8]}
    assert told(findings(tmp_path, {"a": inside, "b": outside}, 8)) == [
        ("D0107", "unknown", "a"), ("D0107", "unknown", "b"), ("D0109", "fail", "b"),
    ]  # fmt: skip
    assert read_shard(tmp_path, "x.safetensors").tensors.keys() == {"a"}


@pytest.mark.parametrize(
    "entry",
    [
        3, [], {}, "text", None, {"dtype": "F32"}, {"dtype": 4, "shape": [1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": "1", "data_offsets": [0, 4]}, {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}, {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 8]},
        {"dtype": "F32", "shape": [1], "data_offsets": ["0", "4"]}, {"dtype": "F32", "shape": [1] * 40, "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [10**30, 0], "data_offsets": [0, 0]}, {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]},
    ],
)  # fmt: skip
def test_malformed_entry(tmp_path: Path, entry: object) -> None:
    assert told(findings(tmp_path, {"t": entry}, 4)) == [("D0106", "fail", "t")]


@pytest.mark.parametrize("name", ["\x1b[2Jevil", "a\nb", "\ud800", "\x9b31m"])
def test_names_that_a_terminal_would_obey(tmp_path: Path, name: str) -> None:
    write_header(tmp_path / "x.safetensors", json.dumps({name: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}), 4)
    shard = read_shard(tmp_path, "x.safetensors")
    assert only(shard.findings).code == "D0106" and only(shard.findings).subject.isprintable() and not shard.tensors


@pytest.mark.parametrize("name", ["w", "w\\u0077"])
def test_duplicate_key(tmp_path: Path, name: str) -> None:
    entry = '{"dtype":"F32","shape":[1],"data_offsets":[%d,%d]}'
    text = f'{{"{name}":{entry % (0, 4)},"{name}":{entry % (4, 8)}}}'
    assert ("D0104", "fail", json.loads(f'"{name}"')) in told(findings(tmp_path, text, 8))


def test_a_tensor_may_be_called_data_offsets(tmp_path: Path) -> None:
    header, size = entries({"data_offsets": ("F32", [2]), "dtype": ("F32", [2])})
    assert findings(tmp_path, {"__metadata__": {"data_offsets": "dtype"}, **header}, size) == ()


def test_overlap(tmp_path: Path) -> None:
    same = {"dtype": "F32", "shape": [8], "data_offsets": [0, 32]}
    finding = only(findings(tmp_path, {"k_proj": same, "v_proj": same}, 32))
    assert told([finding]) == [("D0111", "fail", "k_proj / v_proj")] and "32 bytes" in finding.found


def test_hole(tmp_path: Path) -> None:
    header = {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, "b": {"dtype": "F32", "shape": [2], "data_offsets": [16, 24]}}
    finding = only(findings(tmp_path, header, 24))
    assert told([finding]) == [("D0112", "fail", "b")] and "hole of 8 bytes" in finding.found


def test_nul_padding(tmp_path: Path) -> None:
    header, size = entries(TWO)
    finding = only(findings(tmp_path, json.dumps(header) + "\0\0\0", size))
    assert told([finding]) == [("D0105", "fail", "x.safetensors")] and "3 NUL bytes" in finding.found
    assert read_shard(tmp_path, "x.safetensors").tensors.keys() == TWO.keys()


def test_many_faults_are_counted_not_listed(tmp_path: Path) -> None:
    found = findings(tmp_path, {f"t{i}": {} for i in range(1000)})
    assert len(found) == 21 and found[-1].subject == "980 more"


def test_every_code_is_documented() -> None:
    """Codes written in the readers have a check that `day0 explain` can print."""
    root = Path(__file__).parents[2]
    text = "".join(path.read_text() for path in (root / "day0" / "checkpoint").glob("*.py"))
    codes = {check.code for _, check in checks().items()}
    used = {word for word in text.replace('"', " ").split() if word.startswith("D0") and len(word) == 5}
    assert len(used) >= 18 and used - codes == set()
