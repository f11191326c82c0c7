"""Whatever bytes a header has: findings, never an exception, and no more memory than the file warrants."""

import json
import tracemalloc
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from day0.checkpoint.folder import Checkpoint
from day0.checkpoint.headers import read_shard
from day0.stages.inspect import inspect
from tests.checkpoint.shards import entries, write_header

relaxed = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
PACKED = {"b.weight": ("F8_E4M3", [4, 4]), "b.weight_scale_inv": ("F32", [1, 1])}
HEADER, SIZE = entries({"a": ("F32", [2, 3]), **PACKED, "c": ("BF16", [5])})
TEXT = json.dumps(HEADER).encode()
SOUND = len(TEXT).to_bytes(8, "little") + TEXT + bytes(SIZE)
places = st.integers(0, len(SOUND) - SIZE - 1)
keys = st.sampled_from(["dtype", "shape", "data_offsets", "x"])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=4) | st.sampled_from(["F32", "F4", "BF16"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


def open_all(folder: Path, content: bytes) -> None:
    (folder / "config.json").write_text('{"model_type": "none", "quantization_config": {"weight_block_size": [128, 128]}}')
    (folder / "model.safetensors").write_bytes(content)
    tracemalloc.start()
    checkpoint = Checkpoint.open(folder)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20
    for header in checkpoint.headers.values():
        assert 0 <= header.start <= header.end and all(size >= 0 for size in header.shape)
        assert header.end <= len(content) or any(finding.code == "D0110" for finding in checkpoint.findings)
    inspect(folder).to_yaml()


@relaxed
@given(edits=st.lists(st.tuples(places, st.integers(0, 255)), min_size=1, max_size=6), cut=st.integers(0, 80))
def test_changed_bytes(tmp_path: Path, edits: list[tuple[int, int]], cut: int) -> None:
    raw = bytearray(SOUND)
    for place, value in edits:
        raw[place] = value
    open_all(tmp_path, bytes(raw[: len(raw) - cut]))


@relaxed
@given(entry=values, name=st.text(max_size=6), data=st.integers(0, 64))
def test_any_json_as_an_entry(tmp_path: Path, entry: object, name: str, data: int) -> None:
    text = json.dumps({**HEADER, name: entry})
    raw = text.encode()
    open_all(tmp_path, len(raw).to_bytes(8, "little") + raw + bytes(data))


@relaxed
@given(content=st.binary(max_size=200))
def test_any_bytes(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.safetensors").write_bytes(content)
    assert read_shard(tmp_path, "x.safetensors").findings


@relaxed
@given(index=values)
def test_any_json_as_an_index(tmp_path: Path, index: object) -> None:
    write_header(tmp_path / "model.safetensors", TEXT.decode(), SIZE)
    (tmp_path / "config.json").write_text('{"model_type": "none"}')
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    Checkpoint.open(tmp_path)
