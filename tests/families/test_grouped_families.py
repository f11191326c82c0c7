"""Families of grouped-query attention: weights of released configurations, all of whose keys are read, and what transformers writes.

Keys are those of the releases (config.json of the named repositories), without what training or token handling use. Figures are billions
of weights in all and for one token, as published; totals are also those of transformers' own model on the meta device, exactly.
"""

import copy
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")
import torch
import transformers
from safetensors.torch import save_file

from day0.checkpoint.config import Config
from day0.engine.release import Release, recognise
from day0.engine.specs import specs
from day0.spec.errors import Day0Error
from day0.spec.model import Model
from tests.engine.opened import expected, logits, resident
from tests.zoo import checkpoint, reference
from tests.zoo.family import catalog

RELEASED: dict[str, tuple[float | None, float | None, dict[str, Any]]] = {  # repository → (total, active, keys)
    "MiniMaxAI/MiniMax-M2.7": (228.69, 11.0, dict(
        model_type="minimax_m2", hidden_size=3072, intermediate_size=1536, num_hidden_layers=62, num_attention_heads=48, head_dim=128,
        num_key_value_heads=8, num_local_experts=256, num_experts_per_tok=8, vocab_size=200064, max_position_embeddings=204800,
        attn_type_list=[1] * 62, qk_norm_type="per_layer", rotary_dim=64, rope_theta=5000000, scoring_func="sigmoid", use_mtp=True,
        num_mtp_modules=3, mtp_transformer_layers=1, shared_intermediate_size=0, use_qk_norm=True, use_routing_bias=True,
    )),
    "zai-org/GLM-4.5": (352.8, 33.6, dict(
        model_type="glm4_moe", hidden_size=5120, intermediate_size=12288, moe_intermediate_size=1536, num_hidden_layers=92, head_dim=128,
        num_attention_heads=96, num_key_value_heads=8, n_routed_experts=160, n_shared_experts=1, num_experts_per_tok=8, vocab_size=151552,
        max_position_embeddings=131072, first_k_dense_replace=3, attention_bias=True, use_qk_norm=True, routed_scaling_factor=2.5,
        norm_topk_prob=True, n_group=1, topk_group=1, partial_rotary_factor=0.5, rope_theta=1000000, rope_scaling=None,
        num_nextn_predict_layers=1,
    )),
    "tencent/Hy3": (295.0, 20.7, dict(
        model_type="hy_v3", hidden_size=4096, intermediate_size=13312, moe_intermediate_size=1536, expert_hidden_dim=1536, head_dim=128,
        num_hidden_layers=80, num_attention_heads=64, num_key_value_heads=8, num_experts=192, num_experts_per_tok=8, num_shared_experts=1,
        vocab_size=120832, max_position_embeddings=262144, first_k_dense_replace=1, qk_norm=True, route_norm=True, sep_token_id=120007,
        moe_router_use_sigmoid=True, moe_router_enable_expert_bias=True, router_scaling_factor=2.826, enable_lm_head_fp32=True,
        enable_attention_fp32_softmax=False, enable_moe_fp32_combine=False, use_grouped_mm=False, num_nextn_predict_layers=1,
        rope_parameters={"rope_theta": 11158840.0, "rope_type": "default"}, eod_token_id=120026,
    )),
    "upstage/Solar-Open-100B": (102.7, None, dict(
        model_type="solar_open", hidden_size=4096, moe_intermediate_size=1280, num_hidden_layers=48, num_attention_heads=64, head_dim=128,
        num_key_value_heads=8, n_routed_experts=128, n_shared_experts=1, num_experts_per_tok=8, vocab_size=196608,
        max_position_embeddings=131072, first_k_dense_replace=0, norm_topk_prob=True, n_group=1, topk_group=1, routed_scaling_factor=1.0,
        rope_theta=1000000.0, intermediate_size=10240,
    )),
    "rednote-hilab/dots.llm1.inst": (None, None, dict(
        model_type="dots1", hidden_size=4096, intermediate_size=10944, moe_intermediate_size=1408, num_hidden_layers=62,
        num_attention_heads=32, num_key_value_heads=32, n_routed_experts=128, n_shared_experts=2, num_experts_per_tok=6, vocab_size=152064,
        max_position_embeddings=32768, first_k_dense_replace=1, moe_layer_freq=1, norm_topk_prob=True, routed_scaling_factor=2.5,
        scoring_func="noaux_tc", n_group=1, topk_group=1, max_window_layers=62, sliding_window=None, rope_theta=10000000,
    )),
    "baidu/ERNIE-4.5-21B-A3B-PT": (None, None, dict(
        model_type="ernie4_5_moe", hidden_size=2560, intermediate_size=12288, moe_intermediate_size=1536, num_hidden_layers=28,
        num_attention_heads=20, num_key_value_heads=4, moe_num_experts=64, moe_k=6, moe_num_shared_experts=2, moe_layer_start_index=1,
        moe_layer_interval=1, moe_capacity=[64, 64, 64], moe_gate="topk", moe_use_aux_free=True, use_bias=False, vocab_size=103424,
        max_position_embeddings=131072, rope_theta=500000, num_nextn_predict_layers=1, tie_word_embeddings=True,
    )),
    "openai/gpt-oss-120b": (116.83, 5.7, dict(
        model_type="gpt_oss", hidden_size=2880, intermediate_size=2880, num_hidden_layers=36, num_attention_heads=64, head_dim=64,
        num_key_value_heads=8, num_local_experts=128, num_experts_per_tok=4, experts_per_token=4, vocab_size=201088, rope_theta=150000,
        max_position_embeddings=131072, attention_bias=True, sliding_window=128, swiglu_limit=7.0, initial_context_length=4096,
        layer_types=["sliding_attention", "full_attention"] * 18, rope_scaling=dict(
            beta_fast=32.0, beta_slow=1.0, factor=32.0, original_max_position_embeddings=4096, rope_type="yarn", truncate=False),
    )),
    "XiaomiMiMo/MiMo-V2-Flash": (308.78, 15.5, dict(
        model_type="mimo_v2_flash", hidden_size=4096, intermediate_size=16384, moe_intermediate_size=2048, num_hidden_layers=48,
        num_attention_heads=64, num_key_value_heads=4, head_dim=192, v_head_dim=128, swa_num_attention_heads=64, swa_head_dim=192,
        swa_num_key_value_heads=8, swa_v_head_dim=128, n_routed_experts=256, n_shared_experts=None, num_experts_per_tok=8,
        vocab_size=152576, max_position_embeddings=262144, rope_theta=5000000, swa_rope_theta=10000, partial_rotary_factor=0.334,
        sliding_window=128, sliding_window_size=128, attention_chunk_size=128,
        hybrid_layer_pattern=[int(i > 0 and i % 6 != 5) for i in range(48)],
        moe_layer_freq=[0] + [1] * 47, norm_topk_prob=True, scoring_func="sigmoid", n_group=1, topk_group=1, topk_method="noaux_tc",
        routed_scaling_factor=None, layernorm_epsilon=1e-5, attention_value_scale=0.707, add_swa_attention_sink_bias=True,
        add_full_attention_sink_bias=False,
    )),
    "stepfun-ai/Step-3.5-Flash": (None, None, dict(
        model_type="step3p5", hidden_size=4096, intermediate_size=11264, moe_intermediate_size=1280, num_hidden_layers=45, head_dim=128,
        num_attention_heads=64, num_attention_groups=8, moe_num_experts=288, moe_top_k=8, share_expert_dim=1280, vocab_size=128896,
        max_position_embeddings=262144, max_seq_len=262144, sliding_window=512, use_moe=True, moe_layer_offset=0, moe_every_n_layer=1,
        moe_layers_enum=",".join(map(str, range(3, 45))), moe_router_activation="sigmoid", moe_router_scaling_factor=3.0,
        use_moe_router_bias=True, need_fp32_gate=True, norm_expert_weight=True, use_qk_norm=True, use_head_wise_attn_gate=True,
        att_impl_type="GQA", use_rope_layers=[], yarn_only_types=["full_attention"], zero_centered=True, sink=False,
        layer_types=["full_attention", *["sliding_attention"] * 3] * 12, num_nextn_predict_layers=3,
        attention_other_setting=dict(attention_type="sliding_attention", num_attention_heads=96, num_attention_groups=8, head_dim=128),
        rope_theta=[5000000.0, 10000.0, 10000.0, 10000.0] * 12, partial_rotary_factors=[0.5, 1.0, 1.0, 1.0] * 12, rope_scaling=dict(
            rope_type="llama3", factor=2.0, original_max_position_embeddings=131072, low_freq_factor=1.0, high_freq_factor=32.0),
        swiglu_limits=[0.0] * 43 + [7, 7] + [0.0] * 3, swiglu_limits_shared=[0.0] * 44 + [16] + [0.0] * 3,
    )),
    "meta-llama/Llama-4-Maverick-17B-128E-Instruct": (400.71, 17.2, dict(model_type="llama4", text_config=dict(
        model_type="llama4_text", hidden_size=5120, intermediate_size=8192, intermediate_size_mlp=16384, num_hidden_layers=48,
        num_attention_heads=40, num_key_value_heads=8, head_dim=128, num_local_experts=128, num_experts_per_tok=1, vocab_size=202048,
        max_position_embeddings=1048576, attention_chunk_size=8192, interleave_moe_layer_step=2, rope_theta=500000.0, rope_scaling=None,
        use_qk_norm=False, attn_temperature_tuning=True, floor_scale=8192, attn_scale=0.1, no_rope_layers=[], for_llm_compressor=False,
    ))),
    "Qwen/Qwen3-VL-235B-A22B-Instruct": (235.09, 22.2, dict(model_type="qwen3_vl_moe", image_token_id=151655, vision_config=dict(depth=27),
        text_config=dict(
            model_type="qwen3_vl_moe_text", hidden_size=4096, intermediate_size=12288, moe_intermediate_size=1536, num_hidden_layers=94,
            num_attention_heads=64, num_key_value_heads=4, head_dim=128, num_experts=128, num_experts_per_tok=8, vocab_size=151936,
            max_position_embeddings=262144, decoder_sparse_step=1, mlp_only_layers=[], norm_topk_prob=True, rope_theta=5000000,
            rope_scaling=dict(rope_type="default", mrope_section=[24, 20, 20], mrope_interleaved=True),
    ))),
}  # fmt: skip


def read(keys: dict[str, Any]) -> Model:
    return recognise(Config(keys))[1].read(Config(keys))


CLASSES = {
    "minimax_m2": ("MiniMaxM2Config", "MiniMaxM2ForCausalLM"), "glm4_moe": ("Glm4MoeConfig", "Glm4MoeForCausalLM"),
    "hy_v3": ("HYV3Config", "HYV3ForCausalLM"), "solar_open": ("SolarOpenConfig", "SolarOpenForCausalLM"),
    "dots1": ("Dots1Config", "Dots1ForCausalLM"), "ernie4_5_moe": ("Ernie4_5_MoeConfig", "Ernie4_5_MoeForCausalLM"),
    "gpt_oss": ("GptOssConfig", "GptOssForCausalLM"), "mimo_v2_flash": ("MiMoV2FlashConfig", "MiMoV2FlashForCausalLM"),
    "llama4": ("Llama4TextConfig", "Llama4ForCausalLM"), "step3p5": ("Step3p7Config", "Step3p7ForConditionalGeneration"),
    "qwen3_vl_moe": ("Qwen3VLMoeConfig", "Qwen3VLMoeForConditionalGeneration"),
}  # fmt: skip


def counted(keys: dict[str, Any]) -> int:
    """Weights of transformers' model of the same configuration, without towers."""
    config_class, model_class = CLASSES[keys["model_type"]]
    keys = copy.deepcopy(keys.get("text_config", keys) if model_class.endswith("CausalLM") else keys)
    wrapped = {"text_config": keys} if keys["model_type"] == "step3p5" else keys
    config = getattr(transformers, config_class).from_dict({key: value for key, value in wrapped.items() if key != "model_type"})
    with torch.device("meta"):
        weights = getattr(transformers, model_class)(config).state_dict()
    beside = ("vision", "visual", "projector") + (("lm_head",) if keys.get("tie_word_embeddings") else ())
    return sum(tensor.numel() for name, tensor in weights.items() if not any(word in name for word in beside))


@pytest.mark.parametrize("name", RELEASED)
def test_weights_of_the_release(name: str) -> None:
    total, active, keys = RELEASED[name]
    model = read(keys)
    found = [spec for _, spec in specs(model)]
    count = sum(spec.count for spec in found)
    assert count == counted(keys)
    assert model.unread_keys == ()
    if total:
        assert count / 1e9 == pytest.approx(total, rel=1e-3)
    if active:
        assert sum(spec.active for spec in found) / 1e9 == pytest.approx(active, rel=5e-3)


def test_prediction_layers() -> None:
    assert read(RELEASED["zai-org/GLM-4.5"][2]).prediction.prefixes == ("model.layers.92.",)
    assert read(RELEASED["tencent/Hy3"][2]).prediction.prefixes == ("model.layers.80.",)
    assert read(RELEASED["stepfun-ai/Step-3.5-Flash"][2]).prediction.prefixes == tuple(f"model.layers.{i}." for i in (45, 46, 47))
    assert read(RELEASED["XiaomiMiMo/MiMo-V2-Flash"][2]).prediction.count == 3


def test_layers_of_two_kinds() -> None:
    mimo, step = read(RELEASED["XiaomiMiMo/MiMo-V2-Flash"][2]).layers, read(RELEASED["stepfun-ai/Step-3.5-Flash"][2]).layers
    assert sum(layer.mixer.window is None for layer in mimo) == 9
    assert {(m.window, m.kv_heads, m.sinks, m.rope.theta, m.rope.dim) for m in (layer.mixer for layer in mimo)} == {
        (None, 4, False, 5e6, 64), (129, 8, True, 1e4, 64)}  # fmt: skip
    assert {(m.window, m.heads, m.rope.dim, m.rope.stretch) for m in (layer.mixer for layer in step)} == {
        (None, 64, 64, "llama3"), (512, 96, 128, "none")}  # fmt: skip
    assert [layer.index for layer in step if layer.ffn.activation.limit] == [43, 44]
    assert [layer.index for layer in step if getattr(layer.ffn, "shared_activation", None) and layer.ffn.shared_activation.limit] == [44]


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("MiniMaxAI/MiniMax-M2.7", "qk_norm_type", "per_head"),
        ("MiniMaxAI/MiniMax-M2.7", "attn_type_list", [0] * 62),
        ("tencent/Hy3", "route_norm", False),
        ("rednote-hilab/dots.llm1.inst", "scoring_func", "softmax"),
        ("baidu/ERNIE-4.5-21B-A3B-PT", "use_bias", True),
        ("baidu/ERNIE-4.5-21B-A3B-PT", "moe_layer_interval", 0),
        ("openai/gpt-oss-120b", "layer_types", ["full_attention"]),
        ("openai/gpt-oss-120b", "layer_types", ["chunked_attention"] * 36),
        ("XiaomiMiMo/MiMo-V2-Flash", "hybrid_layer_pattern", [2] * 48),
        ("stepfun-ai/Step-3.5-Flash", "rope_theta", [1e4, "x"]),
        ("stepfun-ai/Step-3.5-Flash", "moe_layers_enum", "3,4,five"),
        ("stepfun-ai/Step-3.5-Flash", "use_head_wise_attn_gate", False),
    ],
)
def test_what_a_family_does_not_compute_is_refused(name: str, key: str, value: Any) -> None:
    with pytest.raises(Day0Error):
        read(RELEASED[name][2] | {key: value})


WRITTEN = (
    "minimax_m2", "glm4_moe", "solar_open", "dots1-window", "ernie4_5_moe", "hy_v3", "gpt_oss", "mimo_v2_flash", "llama4_text", "afmoe",
    "laguna",
)  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("by", ["save_pretrained", "state_dict"])
def test_what_transformers_writes(name: str, by: str, tmp_path: Path) -> None:
    """Its configuration, and its tensors under the names of a release or under those in memory, where experts are fused."""
    source = checkpoint(name)
    model = reference.read(source, catalog()[name])
    model.save_pretrained(tmp_path)
    if by == "state_dict":
        shared = model.config.tie_word_embeddings
        tensors = {key: value.clone() for key, value in model.state_dict().items() if not (shared and key == "lm_head.weight")}
        save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    for file in ("expected.safetensors", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(source / file, tmp_path / file)
    release = Release.open(tmp_path)
    assert (release.missing, release.unclaimed, release.model.unread_keys) == ([], [], ())
    right = expected(tmp_path)
    assert right.deviation(logits(resident(tmp_path), right.prompts)) <= 1e-5
