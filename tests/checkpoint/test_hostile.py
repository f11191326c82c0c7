"""Whatever bytes a header has: findings, never an exception, and no more memory than the file warrants."""

import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from day0.checkpoint.folder import Checkpoint
from day0.checkpoint.headers import read_shard
from day0.checkpoint.scheme import matcher
from day0.stages.inspect import inspect
from tests.checkpoint.shards import entries, write_header
from tests.zoo import checkpoint

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


ENDLESS = "9" * 5000  # digits; Python refuses to read so long a number
LLAMA = {
    "num_hidden_layers": 2, "hidden_size": 8, "vocab_size": 8, "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 8,
}  # fmt: skip


def write_text(folder: Path, name: str, data: object) -> None:
    (folder / name).write_text(json.dumps(data))


@pytest.mark.parametrize("kind", ["llama", "qwen3_moe", "nobody_knows"])
@pytest.mark.parametrize("name", ["layers.{}.mlp.up_proj.weight", "layers.0.mlp.experts.{}.up_proj.weight", "layers.{0}.experts.{0}.{0}.x"])
def test_numbers_in_names_that_have_no_end(tmp_path: Path, kind: str, name: str) -> None:
    header, size = entries({f"model.{name.format(ENDLESS)}": ("F32", [2]), f"model.{name.format(1)}": ("F32", [2])})
    write_header(tmp_path / "model.safetensors", json.dumps(header), size)
    write_text(tmp_path, "config.json", {**LLAMA, "model_type": kind})
    assert inspect(tmp_path).verdict == "unsound"


def test_ids_of_tokens_that_have_no_end(tmp_path: Path) -> None:
    write_text(tmp_path, "config.json", {**LLAMA, "model_type": "llama"})
    write_text(tmp_path, "tokenizer_config.json", {"added_tokens_decoder": {ENDLESS: {}, "²": {}, "7": {}}})
    write_text(tmp_path, "tokenizer.json", {"model": {"vocab": {"a": 3}}})
    found = inspect(tmp_path).tokenizer
    assert found is not None and (found.tokens, found.highest_id) == (2, 7)


@pytest.mark.parametrize("value", [float("inf"), float("nan"), -1, 0, 1e308, 10**30])
@pytest.mark.parametrize("key", [*LLAMA, "num_experts", "moe_intermediate_size", "head_dim"])
def test_numbers_of_a_family_that_nobody_knows(tmp_path: Path, key: str, value: float) -> None:
    write_text(tmp_path, "config.json", {**LLAMA, "model_type": "nobody_knows", key: value})
    assert inspect(tmp_path).basis == "configuration"


SLOW = [
    "(a|a)*$", "[a-z]*" * 8 + "$", "a?" * 40 + "a" * 40 + "$", "(a|a)" * 50 + "X", ".*" * 400 + "X", "(?:a+)+$", "a{99999999999999}", "(" * 400,
]  # fmt: skip


@pytest.mark.parametrize("expression", SLOW)
@pytest.mark.parametrize("kept", [True, False])
def test_expressions_that_never_come_to_an_end(tmp_path: Path, expression: str, kept: bool) -> None:
    """Of modules that the configuration leaves out, with weights and without: they would take longer than this machine lasts."""
    name = "a" * 60
    write_text(tmp_path, "config.json", {
        **LLAMA, "model_type": "llama", "quantization_config": {"quant_method": "fp8", "modules_to_not_convert": [f"re:.*{expression}"]},
    })  # fmt: skip
    if kept:
        tensors = {f"model.layers.{i}.{name}.weight": ("F8_E4M3", [4, 4]) for i in range(4)}
        header, size = entries(tensors | {f"{weight}_scale": ("F32", []) for weight in tensors})
        write_header(tmp_path / "model.safetensors", json.dumps(header), size)
    inspect(tmp_path)
    assert not matcher(f"re:{expression}")(name + "!")


@pytest.mark.parametrize(
    ("expression", "yes", "no"),
    [
        (".*self_attn.*", "model.layers.3.self_attn.q_proj", "model.layers.3.mlp.up_proj"), ("^lm_head$", "lm_head", "model.lm_head"),
        (r"model\.layers\.\d+\.mlp\.(gate|up|down)_proj$", "model.layers.12.mlp.up_proj", "model.layers.12.mlp.experts.0.up_proj"),
        (r".*layers\.(0|1|2)\..*", "model.layers.1.mlp.up_proj", "model.layers.3.mlp.up_proj"), ("visual.*", "visual.blocks.0", "model.visual.x"),
        (r"^(?!.*(?:experts)).*$", "model.layers.0.q_proj", "model.layers.0.mlp.experts.0.up_proj"),
    ],
)  # fmt: skip
def test_expressions_of_releases(expression: str, yes: str, no: str) -> None:
    """As llm-compressor writes them into `ignore`."""
    assert matcher(f"re:{expression}")(yes) and not matcher(f"re:{expression}")(no)


@pytest.mark.parametrize("value", [10**9, 10**30])
@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("qwen4_exp", ["ngram_size", "heads_per_ngram", "ngram_vocab_size_base"]),
        ("deepseek_v3", ["num_hidden_layers", "num_nextn_predict_layers"]),
        ("longcat_flash", ["zero_expert_num"]), ("qwen3_vl_moe", ["head_dim", "num_attention_heads"]), ("minimax_text_01", ["num_attention_heads"]),
    ],
)  # fmt: skip
def test_numbers_that_families_loop_over(tmp_path: Path, name: str, keys: list[str], value: int) -> None:
    """They are refused, or do no harm; a loop over them would take minutes."""
    config = json.loads((checkpoint(name) / "config.json").read_text())
    for key in keys:
        holder = next((inner for inner in (config, *config.values()) if isinstance(inner, dict) and key in inner), config)
        write_text(tmp_path, "config.json", {**config, key: value} if holder is config else config | {
            outer: {**inner, key: value} for outer, inner in config.items() if inner is holder
        })  # fmt: skip
        assert inspect(tmp_path).basis == "configuration", key
