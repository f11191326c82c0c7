"""What is checked against the model: each fault planted in a sound release is one finding; sound variants have none."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors import safe_open

from day0.stages.inspect import inspect
from tests.checkpoint.shards import Tensor, told, write_release
from tests.zoo import checkpoint

PACKED = "model.layers.0.self_attn.o_proj.weight"
Edit = Callable[[dict[str, Tensor], dict], None]


def variant(folder: Path, name: str, edit: Edit) -> list[tuple[str, str, str]]:
    """Findings on a sparse copy of a release of the zoo after `edit` of its tensors and configuration."""
    base = checkpoint(name)
    tensors: dict[str, Tensor] = {}
    for file in sorted(base.glob("model-*.safetensors")):
        with safe_open(file, "pt") as shard:
            tensors |= {key: (shard.get_slice(key).get_dtype(), shard.get_slice(key).get_shape()) for key in shard.keys()}  # noqa: SIM118
    config = json.loads((base / "config.json").read_text())
    edit(tensors, config)
    write_release(folder, [tensors], config)
    for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        target = folder / file
        if (base / file).is_file() and not target.exists():
            target.write_bytes((base / file).read_bytes())
    return told(inspect(folder).findings)


@pytest.mark.parametrize("name", ["llama", "qwen3_moe", "deepseek_v3", "deepseek_v3-fp8"])
def test_sound(tmp_path: Path, name: str) -> None:
    assert variant(tmp_path, name, lambda tensors, config: None) == []


def test_missing_tensor(tmp_path: Path) -> None:
    found = variant(tmp_path, "llama", lambda tensors, config: tensors.pop("model.layers.1.mlp.up_proj.weight"))
    assert found == [("D0302", "fail", "layers.1.ffn.up")]


def test_missing_expert(tmp_path: Path) -> None:
    found = variant(tmp_path, "qwen3_moe", lambda tensors, config: tensors.pop("model.layers.0.mlp.experts.3.down_proj.weight"))
    assert found == [("D0302", "fail", "layers.0.ffn.experts.down")]
    (finding,) = inspect(tmp_path).findings
    assert finding.found == "experts [3] absent"


def test_unclaimed_tensor(tmp_path: Path) -> None:
    def edit(tensors: dict[str, Tensor], config: dict) -> None:
        tensors["model.layers.0.self_attn.sinks"] = ("F32", [4])

    assert variant(tmp_path, "llama", edit) == [("D0303", "fail", "model.layers.0.self_attn.sinks")]


def test_alike_tensors_are_told_once(tmp_path: Path) -> None:
    def edit(tensors: dict[str, Tensor], config: dict) -> None:
        tensors |= {f"model.layers.{i}.self_attn.k_scale": ("F32", [1]) for i in range(config["num_hidden_layers"])}

    assert variant(tmp_path, "llama", edit) == [("D0303", "warn", "model.layers.*.self_attn.k_scale")]


def test_a_tied_head_may_be_stored(tmp_path: Path) -> None:
    def edit(tensors: dict[str, Tensor], config: dict) -> None:
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]

    assert variant(tmp_path, "llama_tied", edit) == [("D0303", "warn", "lm_head.weight")]


def test_wrong_shape(tmp_path: Path) -> None:
    def edit(tensors: dict[str, Tensor], config: dict) -> None:
        config["intermediate_size"] += 8

    assert {(code, status) for code, status, _ in variant(tmp_path, "llama", edit)} == {("D0305", "fail")}
    assert "model.layers.0.mlp.up_proj.weight" in {finding.subject for finding in inspect(tmp_path).findings}


def test_fp8_without_scale(tmp_path: Path) -> None:
    found = variant(tmp_path, "deepseek_v3-fp8", lambda tensors, config: tensors.pop(f"{PACKED}_scale_inv"))
    assert found == [("D0204", "fail", PACKED), ("D0209", "unknown", PACKED), ("D0302", "fail", "layers.0.mixer.o")]
    finding = inspect(tmp_path).findings[0]
    assert finding.expected.startswith(f"{PACKED}_scale_inv [") and "without scales" in finding.found


def test_scale_grid_of_the_wrong_shape(tmp_path: Path) -> None:
    grid: list[int] = []

    def edit(tensors: dict[str, Tensor], config: dict) -> None:
        dtype, shape = tensors[f"{PACKED}_scale_inv"]
        tensors[f"{PACKED}_scale_inv"] = dtype, [shape[0], shape[1] + 1]
        grid.extend(shape)

    assert variant(tmp_path, "deepseek_v3-fp8", edit)[0] == ("D0204", "fail", PACKED)
    finding = inspect(tmp_path).findings[0]
    assert finding.expected == f"{PACKED}_scale_inv {grid}" and finding.found == f"{PACKED}_scale_inv {[grid[0], grid[1] + 1]}"


def test_block_size_of_the_configuration(tmp_path: Path) -> None:
    def edit(tensors: dict[str, Tensor], config: dict) -> None:
        config["quantization_config"]["weight_block_size"] = [7, 9]

    assert variant(tmp_path, "deepseek_v3-fp8", edit) == [("D0210", "warn", "quantization_config.weight_block_size")]


def test_prediction_layer(tmp_path: Path) -> None:
    def unmentioned(tensors: dict[str, Tensor], config: dict) -> None:
        config["num_nextn_predict_layers"] = 0

    def three(tensors: dict[str, Tensor], config: dict) -> None:
        config["num_nextn_predict_layers"] = 3

    def beyond(tensors: dict[str, Tensor], config: dict) -> None:
        tensors["model.layers.8.input_layernorm.weight"] = ("BF16", [8])

    count = json.loads((checkpoint("deepseek_v3") / "config.json").read_text())["num_hidden_layers"]
    assert variant(tmp_path / "a", "deepseek_v3", unmentioned) == [("D0304", "warn", f"layer {count}")]
    assert [status for _, status, _ in variant(tmp_path / "b", "deepseek_v3", three)] == ["warn", "warn"]
    assert variant(tmp_path / "c", "deepseek_v3", beyond) == [("D0304", "fail", "layer 8")]


def test_unread_key(tmp_path: Path) -> None:
    assert variant(tmp_path, "llama", lambda tensors, config: config.update(logits_soft_cap=30.0)) == [("D0306", "warn", "logits_soft_cap")]


def test_unknown_field(tmp_path: Path) -> None:
    def edit(tensors: dict[str, Tensor], config: dict) -> None:
        config["rope_scaling"] = {"rope_type": "spiral", "factor": 2.0}
        config.pop("rope_parameters", None)

    assert variant(tmp_path, "llama", edit) == [("D0301", "fail", "model_type llama")]
    assert "spiral" in inspect(tmp_path).findings[0].found


def test_unknown_family_still_gets_sizes(tmp_path: Path) -> None:
    found = variant(tmp_path, "deepseek_v3", lambda tensors, config: config.update(model_type="brandnew_v9"))
    assert found == [("D0301", "fail", "model_type brandnew_v9")]
    report, base = inspect(tmp_path), inspect(checkpoint("deepseek_v3"))
    assert "deepseek_v3" in report.findings[0].hint
    assert report.model.family is None and report.bytes.total == base.bytes.total
    assert (report.parameters.total, report.parameters.prediction) == (base.parameters.total, base.parameters.prediction)
    assert [layer.bytes for layer in report.layers][: len(base.layers)] == [layer.bytes for layer in base.layers]


@pytest.mark.parametrize(("highest", "fails"), [(0, True), (-1, False)])
def test_token_beyond_the_table(tmp_path: Path, highest: int, fails: bool) -> None:
    base = checkpoint("llama")
    rows = json.loads((base / "config.json").read_text())["vocab_size"]
    data = json.loads((base / "tokenizer.json").read_text())
    data["added_tokens"] = [*data["added_tokens"], {"id": rows + highest, "content": "<new>"}]
    (tmp_path / "tokenizer.json").write_text(json.dumps(data))
    found = variant(tmp_path, "llama", lambda tensors, config: None)
    assert found == ([("D0307", "fail", "tokenizer.json")] if fails else [])


def test_two_templates(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text('{"chat_template": "another"}')
    (tmp_path / "chat_template.jinja").write_text("one")
    assert variant(tmp_path, "llama", lambda tensors, config: None) == [("D0308", "warn", "chat_template.jinja")]


def test_checks_are_documented() -> None:
    from day0.spec.registry import checks

    for name, check in checks().items():
        assert re.fullmatch(r"D\d{4}", check.code) and name.startswith(check.code.lower() + "_")
        assert check.title.endswith(".") and check.why and check.remedy
