"""Towers by their configurations alone: weights of full-size ones as transformers counts them, and configurations that are hostile."""

import copy
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")

import transformers

from day0.checkpoint.config import Config
from day0.engine.release import recognise
from day0.engine.specs import encoder_specs
from day0.spec.errors import Day0Error
from day0.spec.model import Model
from tests.vision.zoo import SEEING

FULL: dict[str, dict[str, Any]] = {  # vision_config of released models, and of transformers' defaults where none was seen
    "kimi_k25": dict(
        patch_size=14, init_pos_emb_height=64, init_pos_emb_width=64, merge_kernel_size=[2, 2], vt_hidden_size=1152,
        vt_intermediate_size=4304, vt_num_attention_heads=16, vt_num_hidden_layers=27, projector_ln_eps=1e-5),
    "qwen3_vl_moe": dict(
        deepstack_visual_indexes=[8, 16, 24], depth=27, hidden_size=1152, intermediate_size=4304, num_heads=16, out_hidden_size=2048,
        num_position_embeddings=2304, patch_size=16, spatial_merge_size=2, temporal_patch_size=2),
    "glm5_next": dict(depth=24, hidden_size=1024, num_heads=16, patch_size=14, out_hidden_size=1536, intermediate_size=4096,
                      projection_intermediate_size=10240),
    "step3p7": dict(width=1536, layers=47, heads=16, image_size=728, patch_size=14),
}  # fmt: skip


def model_of(name: str, **vision: Any) -> Model:
    """The family's reading of the tiny text model beside a tower."""
    config: dict[str, Any] = copy.deepcopy(SEEING[name].config) | {"model_type": name, "vision_config": vision}
    config["text_config"] |= {"model_type": "kimi_k2" if name == "kimi_k25" else f"{name}_text"}
    if name == "step3p7":
        config["text_config"]["model_type"] = "step3p5"
    config.pop("projection_hidden_size", None)
    return recognise(Config(config))[1].read(Config(config))  # type: ignore[no-any-return]


def theirs(name: str) -> int:
    """Weights of transformers' classes for the same sizes, on the meta device."""
    said = dict(FULL[name])
    said = {key.removeprefix("vt_").replace("init_", ""): value for key, value in said.items() if key != "projector_ln_eps"}
    kind, hidden = SEEING[name].kind, SEEING[name].config["text_config"]["hidden_size"]
    config = getattr(transformers, f"{kind}VisionConfig")(**said)
    with torch.device("meta"):
        tower = getattr(transformers, f"{kind}VisionModel")._from_config(config)
        beside: list[torch.nn.Module] = []
        if name == "kimi_k25":
            width = 4 * config.hidden_size
            beside = [torch.nn.LayerNorm(config.hidden_size), torch.nn.Linear(width, width), torch.nn.Linear(width, hidden)]
        if name == "step3p7":
            beside = [torch.nn.Linear(4 * config.hidden_size, hidden, bias=False)]
    return sum(parameter.numel() for module in (tower, *beside) for parameter in module.parameters())


@pytest.mark.parametrize("name", FULL)
def test_full_size_towers_have_the_weights_that_transformers_counts(name: str) -> None:
    encoder = model_of(name, **FULL[name]).encoder
    assert encoder is not None
    assert sum(spec.count for _, spec in encoder_specs(encoder)) == theirs(name)


@pytest.mark.parametrize("name", FULL)
def test_without_a_tower_there_is_none(name: str) -> None:
    assert model_of(name).encoder is None


BAD: list[tuple[str, Any]] = [
    ("depth", 10**9), ("layers", 10**9), ("vt_num_hidden_layers", 10**9), ("num_heads", 0), ("heads", 0), ("vt_num_attention_heads", 0),
    ("patch_size", 0), ("patch_size", -14), ("hidden_size", 10**30), ("num_heads", "many"), ("spatial_merge_size", 0),
    ("merge_kernel_size", []), ("merge_kernel_size", [2, 3]), ("merge_kernel_size", ["2", "2"]), ("merge_kernel_size", [0, 0]),
    ("num_position_embeddings", 10**400), ("num_position_embeddings", 2305), ("deepstack_visual_indexes", [99]),
    ("deepstack_visual_indexes", [8, 8]), ("deepstack_visual_indexes", ["8"]), ("mlp_ratio", 1e300), ("mlp_ratio", -1.0),
    ("image_size", 10**12), ("hidden_act", "sharp"), ("merge_type", "other"), ("rope_parameters", {"rope_type": "other"}),
    ("temporal_patch_size", [2]), ("width", 1.5),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value"), BAD, ids=lambda value: str(value)[:20])
def test_a_hostile_tower_is_a_located_error(key: str, value: Any) -> None:
    """In every family that reads the key."""
    asked = 0
    for name, said in FULL.items():
        plain = model_of(name, **said)
        if f"vision_config.{key}" not in plain.read_keys:
            continue
        asked += 1
        with pytest.raises(Day0Error):
            model_of(name, **said | {key: value})
    assert asked


def test_sections_of_interleaved_positions() -> None:
    """Qwen3-VL: 24, 20 and 20 of 64 pairs; time, row and column take turns, and what is left turns with time (transformers 5.24)."""
    from transformers.models.qwen3_vl_moe.modeling_qwen3_vl_moe import Qwen3VLMoeTextRotaryEmbedding as Theirs

    config = copy.deepcopy(SEEING["qwen3_vl_moe"].config["text_config"]) | {"model_type": "qwen3_vl_moe_text", "head_dim": 128}
    config["rope_parameters"] = dict(rope_type="default", rope_theta=5e6, mrope_section=[24, 20, 20], mrope_interleaved=True)
    whole = {"model_type": "qwen3_vl_moe", "text_config": config}
    rope = recognise(Config(whole))[1].read(Config(whole)).layers[0].mixer.rope
    table = Theirs(transformers.Qwen3VLMoeTextConfig(**config))
    places = torch.tensor([[[5]], [[70]], [[900]]])
    cosine, _ = table(torch.zeros(1, dtype=torch.float32), places)
    ours = torch.tensor([(5, 70, 900)[axis] for axis in rope.axes]) * torch.tensor(rope.frequencies())
    torch.testing.assert_close(ours.cos(), cosine[0, 0, :64], rtol=0, atol=1e-4)


def test_a_number_too_large_for_any_float() -> None:
    """JSON has whole numbers of any length; one that is asked for as a fraction cannot be made one."""
    with pytest.raises(Day0Error, match="larger than any number"):
        Config({"eps": 10**400}).float("eps")
