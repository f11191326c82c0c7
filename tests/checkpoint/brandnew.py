"""A family that nobody knows, made of tiny releases that somebody does: sparse copies under other names, with other parts."""

import json
from pathlib import Path

from safetensors import safe_open

from tests.checkpoint.shards import Tensor, write_release
from tests.zoo import checkpoint

RENAMES = (
    ("model.layers.", "backbone.blocks."), ("model.embed_tokens", "backbone.wte"), ("model.norm", "backbone.out_norm"), (".self_attn.", ".mixing."),
    (".mlp.experts.", ".experts."), (".mlp.", ".network."), ("gate_proj", "w_in"), ("up_proj", "w_side"), ("down_proj", "w_out"),
    ("q_a_proj", "w_dq"), ("q_b_proj", "w_uq"), ("kv_a_proj_with_mqa", "w_dkv"), ("kv_b_proj", "w_ukv"), ("o_proj", "w_o"),
)  # fmt: skip


def tensors_of(folder: Path) -> dict[str, Tensor]:
    """Name → (type, shape)."""
    found: dict[str, Tensor] = {}
    for file in sorted(folder.glob("model-*.safetensors")):
        with safe_open(file, "pt") as shard:
            found |= {key: (shard.get_slice(key).get_dtype(), shard.get_slice(key).get_shape()) for key in shard.keys()}  # noqa: SIM118
    return found


def released(name: str) -> tuple[dict[str, Tensor], dict]:
    """Tensors and configuration of a tiny release, under a model_type that no family recognises."""
    config = json.loads((checkpoint(name) / "config.json").read_text())
    return tensors_of(checkpoint(name)), config | {"model_type": "brandnew_v9", "architectures": ["BrandnewForCausalLM"]}


def renamed(folder: Path) -> None:
    """Latent attention and experts, every tensor under another name."""
    tensors, config = released("deepseek_v3")
    for old, new in RENAMES:
        tensors = {name.replace(old, new): tensor for name, tensor in tensors.items()}
    write_release(folder, [tensors], config)


def strange(folder: Path) -> None:
    """Grouped attention with tensors in every second layer that nothing explains."""
    tensors, config = released("qwen3_moe")
    hidden = config["hidden_size"]
    for i in range(0, config["num_hidden_layers"], 2):
        tensors[f"model.layers.{i}.self_attn.echo_chamber.weight"] = ("BF16", [7, hidden])
    write_release(folder, [tensors], config | {"echo_rank": 7, "echo_decay": 0.5})


def nested(folder: Path) -> None:
    """The configuration of the language model inside another, under words of its own; a tower beside it."""
    tensors, config = released("deepseek_v3")
    words = {"num_hidden_layers": "n_layers", "hidden_size": "d_model", "n_routed_experts": "num_experts", "num_experts_per_tok": "moe_topk"}
    text = {words.get(key, key): value for key, value in config.items()}
    tensors = {f"language.{name}": tensor for name, tensor in tensors.items()}
    tensors |= {f"vision_tower.blocks.{i}.attn.qkv.weight": ("BF16", [96, 32]) for i in range(3)}
    write_release(folder, [tensors], {"model_type": "brandnew_v9", "brain": text, "vision_config": {"hidden_size": 32}})


def quantised(folder: Path) -> None:
    """Experts in four bits, the rest as it was."""
    write_release(folder, [(tensors := released("qwen3_moe-int4"))[0]], tensors[1])
