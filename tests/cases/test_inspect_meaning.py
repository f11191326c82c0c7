"""Configurations and tensors that were misread, as they were met in public: what `day0 inspect` says of them, and its exit code."""

import json
from pathlib import Path
from typing import Any

import pytest

from day0.checkpoint.config import Config
from day0.checkpoint.source import at
from day0.engine.release import recognise
from tests.cases.inspected import Inspected, Tensors, folder, write
from tests.zoo import checkpoint

__all__ = ["folder"]
TOWER = ("vision_tower.", "mm_projector.")
VISION = {"hidden_size": 1152, "num_hidden_layers": 33}


def test_layers_and_experts_are_in_a_section(folder: Path) -> None:
    """Nothing but `text_config` says how many: the report has the figures, and the key that each came from."""
    write(folder, "kimi_k25")
    config = json.loads((folder / "config.json").read_text())
    assert "num_hidden_layers" not in config and "n_routed_experts" not in config
    report = Inspected(folder).report
    assert len(report.layers) == config["text_config"]["num_hidden_layers"]
    assert report.layers[-1].experts == config["text_config"]["n_routed_experts"]
    assert {"text_config.num_hidden_layers", "text_config.n_routed_experts", "text_config.num_experts_per_tok"} <= report.config.read.keys()


def test_a_section_of_a_family_that_nobody_knows(folder: Path) -> None:
    """Experts and their choice under the names of one family, in a section, beside a tower with the same words."""
    words = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 128}
    words |= {"moe_intermediate_size": 32, "num_experts": 8, "top_k_experts": 2}
    folder.mkdir(exist_ok=True)
    config = {"model_type": "brandnew_vl", "vision_config": {"hidden_size": 99, "num_hidden_layers": 3}, "text_config": words}
    (folder / "config.json").write_text(json.dumps(config))
    inspected = Inspected(folder)
    report = inspected.report
    assert inspected.code == 1 and ("D0301", "fail") in {told[:2] for told in inspected.told}
    assert [(layer.experts, layer.top_k) for layer in report.layers] == [(8, 2)] * 4 and report.model.hidden == 64
    assert {f"text_config.{key}" for key in words} <= report.config.read.keys()


def test_the_outer_number_of_layers_is_that_of_the_vision_tower(folder: Path) -> None:
    def edit(tensors: Tensors, config: dict[str, Any]) -> None:
        config |= VISION

    write(folder, "kimi_k25", edit)
    inspected = Inspected(folder)
    config = json.loads((folder / "config.json").read_text())["text_config"]
    assert [told for told in inspected.told if told[0] == "D0311"] == [("D0311", "warn", key) for key in config if key in VISION]
    assert inspected.code == 0 and len(inspected.report.layers) == config["num_hidden_layers"]
    assert inspected.report.model.hidden == config["hidden_size"]
    assert f"text_config.num_hidden_layers, which is {config['num_hidden_layers']}" in inspected.found("D0311")


def test_a_model_that_sees_without_its_tower(folder: Path) -> None:
    """Neither described nor stored: a text-only checkpoint."""

    def edit(tensors: Tensors, config: dict[str, Any]) -> None:
        config.pop("vision_config", None)
        for name in [name for name in tensors if name.startswith(TOWER)]:
            del tensors[name]

    write(folder, "kimi_k25", edit)
    inspected = Inspected(folder)
    assert (inspected.code, inspected.told) == (0, []) and inspected.report.parameters.towers == {}
    assert "text only" in inspected.found("D0309")


def test_a_tower_that_is_described_and_not_stored(folder: Path) -> None:
    def edit(tensors: Tensors, config: dict[str, Any]) -> None:
        config["vision_config"] = VISION
        for name in [name for name in tensors if name.startswith(TOWER)]:
            del tensors[name]

    write(folder, "kimi_k25", edit)
    inspected = Inspected(folder)
    assert (inspected.code, inspected.told) == (1, [("D0309", "fail", "vision_config")])


def layers_of(name: str) -> int:
    return int(json.loads((checkpoint(name) / "config.json").read_text())["num_hidden_layers"])


def test_the_prediction_layer_is_no_part_of_the_stack(folder: Path) -> None:
    write(folder, "deepseek_v3")
    inspected = Inspected(folder)
    assert (inspected.code, inspected.told) == (0, [])
    assert len(inspected.report.layers) == layers_of("deepseek_v3") and inspected.report.parameters.prediction > 0
    assert inspected.report.bytes.by_role["prediction"] > 0


@pytest.mark.parametrize(
    ("mentioned", "stored", "code", "told"),
    [
        (0, None, 0, [("D0304", "warn", "layer {last}")]),
        (3, None, 0, [("D0304", "warn", "model.layers.{second}"), ("D0304", "warn", "model.layers.{third}")]),
        (1, 8, 1, [("D0304", "fail", "layer 8")]),
    ],
)
def test_prediction_layers_that_are_not_as_mentioned(
    folder: Path, mentioned: int, stored: int | None, code: int, told: list[tuple[str, str, str]]
) -> None:
    def edit(tensors: Tensors, config: dict[str, Any]) -> None:
        config["num_nextn_predict_layers"] = mentioned
        if stored:
            tensors[f"model.layers.{stored}.input_layernorm.weight"] = ("BF16", [8])

    write(folder, "deepseek_v3", edit)
    inspected, last = Inspected(folder), layers_of("deepseek_v3")
    expected = [(*finding[:2], finding[2].format(last=last, second=last + 1, third=last + 2)) for finding in told]
    assert (inspected.code, inspected.told) == (code, expected)


def test_a_list_by_layer_has_entries_for_prediction_layers(folder: Path) -> None:
    write(folder, "deepseek_v4-released")
    sound = Inspected(folder)
    ratios = json.loads((folder / "config.json").read_text())["compress_ratios"]
    assert (sound.code, [told for told in sound.told if told[1] == "fail"]) == (0, []) and len(ratios) >= len(sound.report.layers)


def test_a_list_by_layer_is_too_short(folder: Path) -> None:
    def edit(tensors: Tensors, config: dict[str, Any]) -> None:
        config["compress_ratios"] = config["compress_ratios"][: config["num_hidden_layers"] - 1]

    write(folder, "deepseek_v4-released", edit)
    inspected = Inspected(folder)
    assert (inspected.code, inspected.told) == (1, [("D0301", "fail", "model_type deepseek_v4")]) and "compress_ratios" in inspected.found("D0301")


def test_dense_layers_are_those_that_hold_dense_weights(folder: Path) -> None:
    """A configuration that calls the dense first layer sparse is contradicted by name."""

    def edit(tensors: Tensors, config: dict[str, Any]) -> None:
        config["first_k_dense_replace"] = 0
        config.pop("mlp_layer_types", None)

    write(folder, "deepseek_v3", edit)
    inspected = Inspected(folder)
    assert inspected.code == 1 and ("D0302", "fail", "layers.0.ffn.router") in inspected.told
    assert ("D0303", "fail", "model.layers.0.mlp.gate_proj.weight") in inspected.told


def test_experts_in_one_tensor_and_one_by_one(folder: Path) -> None:
    """The count is the same either way, in a release that mixes both."""

    def edit(tensors: Tensors, config: dict[str, Any]) -> None:
        place = next(name for name in tensors if name.endswith("layers.0.mlp.experts.gate_up_proj")).removesuffix(".gate_up_proj")
        (kind, (experts, both, hidden)), (_, (_, _, width)) = (tensors.pop(f"{place}.{name}_proj") for name in ("gate_up", "down"))
        for e in range(experts):
            tensors |= {f"{place}.{e}.{name}_proj.weight": (kind, [width, hidden]) for name in ("gate", "up")}
            tensors[f"{place}.{e}.down_proj.weight"] = (kind, [hidden, width])
        assert both == 2 * width

    write(folder, "qwen3_5_moe")
    fused = Inspected(folder)
    mixed = folder.with_name("mixed")
    write(mixed, "qwen3_5_moe", edit)
    inspected = Inspected(mixed)
    assert (inspected.code, inspected.told) == (0, fused.told) and inspected.report.parameters == fused.report.parameters


def test_a_layer_that_the_quantiser_skipped_without_saying_so(folder: Path) -> None:
    """The prediction layer is plain though nothing is listed as left out; scales of the cache are called that."""

    def edit(tensors: Tensors, config: dict[str, Any]) -> None:
        config["quantization_config"]["ignore"] = ["lm_head"]
        last = f"model.layers.{config['num_hidden_layers']}."
        for name in [name for name in tensors if name.startswith(last) and name.endswith("_packed")]:
            module = name.removesuffix(".weight_packed")
            _, (rows, words) = tensors.pop(name)
            tensors[f"{module}.weight"] = ("BF16", [rows, words * 8])
            for part in ("scale", "shape"):
                del tensors[f"{module}.weight_{part}"]
        tensors |= {f"model.layers.0.self_attn.{kind}_scale": ("F32", [1]) for kind in "kv"}

    write(folder, "deepseek_v3-int4", edit)
    inspected = Inspected(folder)
    last = f"model.layers.{layers_of('deepseek_v3-int4')}."
    left_out = [told for told in inspected.told if told[0] == "D0212"]
    assert inspected.code == 0 and left_out and all(status == "warn" and subject.startswith(last) for _, status, subject in left_out)
    assert ("D0303", "warn", "model.layers.0.self_attn.k_scale") in inspected.told and "cache" in inspected.found("D0303")


def test_a_module_that_is_listed_as_left_out_is_packed(folder: Path) -> None:
    def edit(tensors: Tensors, config: dict[str, Any]) -> None:
        config["quantization_config"]["modules_to_not_convert"] = ["model.layers.0.self_attn.o_proj"]

    write(folder, "deepseek_v3-fp8", edit)
    inspected = Inspected(folder)
    assert (inspected.code, inspected.told) == (0, [("D0212", "warn", "model.layers.0.self_attn.o_proj.weight")])


@pytest.mark.parametrize("grid", [None, 1])
def test_an_eight_bit_weight_without_its_scales(folder: Path, grid: int | None) -> None:
    weight = "model.layers.0.self_attn.o_proj.weight"

    def edit(tensors: Tensors, config: dict[str, Any]) -> None:
        kind, shape = tensors.pop(f"{weight}_scale_inv")
        if grid:
            tensors[f"{weight}_scale_inv"] = kind, [shape[0], shape[1] + grid]

    write(folder, "deepseek_v3-fp8", edit)
    inspected = Inspected(folder)
    assert inspected.code == 1 and inspected.told[0] == ("D0204", "fail", weight)
    assert f"{weight}_scale_inv [" in inspected.found("D0204")


@pytest.mark.parametrize(("beyond", "code"), [(1, 1), (-60, 0)])
def test_tokens_and_rows_of_the_table(folder: Path, beyond: int, code: int) -> None:
    """More rows than tokens are legal padding; a token without a row is not."""
    folder.mkdir()
    base = checkpoint("llama")
    rows = json.loads((base / "config.json").read_text())["vocab_size"]
    data = json.loads((base / "tokenizer.json").read_text())
    if beyond > 0:
        data["added_tokens"] = [*data["added_tokens"], {"id": rows - 1 + beyond, "content": "<new>"}]
    (folder / "tokenizer.json").write_text(json.dumps(data))
    write(folder, "llama")
    inspected = Inspected(folder)
    assert (inspected.code, inspected.told) == (code, [("D0307", "fail", "tokenizer.json")] if code else [])
    assert not code or all(str(number) in inspected.found("D0307") for number in (rows, rows - 1 + beyond))


def test_experts_were_taken_out_of_some_layers(folder: Path) -> None:
    """Where router and experts agree the layer has fewer; where the router has a row for an absent expert, the expert is missing."""

    def edit(tensors: Tensors, config: dict[str, Any]) -> None:
        experts = config["num_experts"]
        kind, (_, hidden) = tensors["model.layers.0.mlp.gate.weight"]
        tensors["model.layers.0.mlp.gate.weight"] = kind, [experts - 3, hidden]
        gone = [(0, e) for e in range(experts - 3, experts)] + [(2, experts - 1)]
        for name in [name for name in tensors if any(f".layers.{i}.mlp.experts.{e}." in name for i, e in gone)]:
            del tensors[name]

    write(folder, "qwen3_moe", edit)
    inspected = Inspected(folder)
    experts = json.loads((folder / "config.json").read_text())["num_experts"]
    assert inspected.code == 1
    assert [told for told in inspected.told if told[0] == "D0312"] == [("D0312", "warn", "layer 0")]
    missing = [told for told in inspected.told if told[0] == "D0302"]
    assert missing == [("D0302", "fail", f"layers.2.ffn.experts.{name}") for name in ("gate", "up", "down")]
    assert f"experts [{experts - 1}] absent" in inspected.found("D0302")
    assert [inspected.report.layers[i].experts for i in (0, 2)] == [experts - 3, experts]


def test_a_model_type_that_nobody_knows(folder: Path) -> None:
    def edit(tensors: Tensors, config: dict[str, Any]) -> None:
        config.update(model_type="brandnew_v9", architectures=["BrandNewV9ForCausalLM"], auto_map={"AutoModel": "modeling.Evil"})

    write(folder, "deepseek_v3", edit)
    (folder / "modeling.py").write_text("raise SystemExit('was run')")
    inspected = Inspected(folder)
    assert inspected.told[0] == ("D0301", "fail", "model_type brandnew_v9") and inspected.code == 1
    assert "closest known family: deepseek_v3" in inspected.found("D0301")
    assert inspected.report.layers and inspected.report.parameters.total > 0


def test_rope_in_the_new_place_alone(folder: Path) -> None:
    def edit(tensors: Tensors, config: dict[str, Any]) -> None:
        config.pop("rope_theta", None)
        config.pop("rope_scaling", None)
        config["rope_parameters"] = {"rope_theta": 8000000, "rope_type": "default", "partial_rotary_factor": 1.0}

    write(folder, "llama", edit)
    inspected = Inspected(folder)
    assert (inspected.code, inspected.told) == (0, [])
    config = Config.load(at(folder))
    mixer: Any = recognise(config)[1].read(config).layers[0].mixer
    assert (mixer.rope.theta, mixer.rope.stretch) == (8e6, "none")


def test_rope_in_both_places_with_two_values(folder: Path) -> None:
    def edit(tensors: Tensors, config: dict[str, Any]) -> None:
        config["rope_theta"] = 1000000
        config["rope_parameters"] = {"rope_theta": 8000000, "rope_type": "default"}

    write(folder, "llama", edit)
    inspected = Inspected(folder)
    assert (inspected.code, inspected.told) == (1, [("D0301", "fail", "model_type llama")])
    assert "rope_theta is 1000000, rope_parameters.rope_theta is 8000000" in inspected.found("D0301")
