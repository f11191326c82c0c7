"""Tiny checkpoints that see, in the layout of their releases: written and read back by transformers, with a tokenizer and a preprocessor.

Weights come from a seed: norms near one, other matrices such that every layer matters.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken
from torch import Tensor

from tests.zoo import tokenizer
from tests.zoo.cache import fingerprint, once
from tests.zoo.draw import generator

MARKS = (
    "<|image|>", "<|image_start|>", "<|image_end|>", "<|video|>", "<patch_start>", "<patch_end>", "<patch_newline>", "<im_start>", "<im_end>",
)  # fmt: skip
IDS = {mark: tokenizer.FIRST_SPECIAL + len(tokenizer.SPECIALS) + i for i, mark in enumerate(MARKS)}
IMAGE, VIDEO, VOCAB = IDS["<|image|>"], IDS["<|video|>"], 300
TEMPLATE = """\
{{- bos_token }}
{%- for message in messages %}
{{- '<|' + message['role'] + '|>' }}
{%- if message['content'] is string %}{{ message['content'] }}
{%- else %}
{%- for part in message['content'] %}
{%- if part['type'] == 'image' %}{{ '<|image_start|><|image|><|image_end|>' }}{% else %}{{ part['text'] }}{% endif %}
{%- endfor %}
{%- endif %}
{{- '<|turn|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}
"""
TEXT = dict(
    vocab_size=VOCAB, hidden_size=40, intermediate_size=64, num_attention_heads=4, max_position_embeddings=1024, rms_norm_eps=1e-6,
    pad_token_id=tokenizer.IDS["pad"], bos_token_id=tokenizer.IDS["bos"], eos_token_id=tokenizer.IDS["eos"], tie_word_embeddings=False,
)  # fmt: skip
LATENT = dict(q_lora_rank=24, kv_lora_rank=16, qk_nope_head_dim=16, v_head_dim=12, n_routed_experts=8, n_shared_experts=1)
LATENT |= dict(num_experts_per_tok=2, n_group=1, topk_group=1, norm_topk_prob=True, routed_scaling_factor=2.5, moe_intermediate_size=24)


@dataclass(frozen=True)
class Seeing:
    """One checkpoint."""

    kind: str  # prefix of transformers' classes
    config: dict[str, Any]
    preprocessor: dict[str, Any]


SEEING = {
    "glm5_next": Seeing("Glm5Next", dict(
        image_token_id=IMAGE, video_token_id=VIDEO, image_start_token_id=IDS["<|image_start|>"], image_end_token_id=IDS["<|image_end|>"],
        text_config=TEXT | LATENT | dict(
            num_hidden_layers=4, num_key_value_heads=4, qk_rope_head_dim=0, head_dim=0, hc_mult=2, hc_sinkhorn_iters=3, index_head_dim=16,
            index_n_heads=16, index_topk=256, index_kpool=4, layer_types=["linear_attention", "indexed_attention"] * 2,
            mlp_layer_types=["dense", "sparse", "sparse", "sparse"], indexer_types=["full"] * 4, linear_conv_kernel_dim=4, linear_head_dim=8,
            linear_num_heads=4, linear_lower_bound=-5.0, swiglu_limit=10.0),
        vision_config=dict(depth=2, hidden_size=16, intermediate_size=32, num_heads=2, patch_size=4, out_hidden_size=40,
                           projection_intermediate_size=28, rms_norm_eps=1e-5, swiglu_limit=1.5)),
        dict(patch_size=4, merge_size=2, temporal_patch_size=2, min_image_tokens=2, max_image_tokens=24)),
    "kimi_k25": Seeing("Kimi_K25", dict(
        image_token_id=IMAGE, video_token_id=VIDEO, vision_start_token_id=IDS["<|image_start|>"], vision_end_token_id=IDS["<|image_end|>"],
        projection_hidden_size=16, tie_word_embeddings=False,
        text_config=TEXT | LATENT | dict(
            model_type="deepseek_v3", num_hidden_layers=3, num_key_value_heads=4, qk_rope_head_dim=8, first_k_dense_replace=1,
            rope_parameters=dict(rope_type="default", rope_theta=10000.0)),
        vision_config=dict(patch_size=6, pos_emb_height=5, pos_emb_width=5, pos_emb_time=2, merge_kernel_size=[2, 2], hidden_size=16,
                           intermediate_size=28, num_hidden_layers=2, num_attention_heads=2)),
        dict(media_proc_cfg=dict(patch_size=6, merge_kernel_size=2, in_patch_limit=80, patch_limit_on_one_side=20))),
    "qwen3_vl_moe": Seeing("Qwen3VLMoe", dict(
        image_token_id=IMAGE, video_token_id=VIDEO, vision_start_token_id=IDS["<|image_start|>"], vision_end_token_id=IDS["<|image_end|>"],
        text_config=TEXT | dict(
            num_hidden_layers=3, num_key_value_heads=2, head_dim=12, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=24,
            norm_topk_prob=True, rope_parameters=dict(rope_type="default", rope_theta=5e6, mrope_section=[2, 2, 2], mrope_interleaved=True)),
        vision_config=dict(depth=3, hidden_size=16, intermediate_size=28, num_heads=2, patch_size=4, out_hidden_size=40,
                           num_position_embeddings=25, spatial_merge_size=2, temporal_patch_size=2, deepstack_visual_indexes=[2, 0])),
        dict(patch_size=4, merge_size=2, temporal_patch_size=2, size=dict(shortest_edge=128, longest_edge=1600))),
    "step3p7": Seeing("Step3p7", dict(
        image_token_id=IMAGE, projector_bias=False,
        text_config=TEXT | dict(
            num_hidden_layers=4, num_attention_groups=2, head_dim=8, moe_intermediate_size=24, moe_num_experts=8, moe_top_k=2,
            share_expert_dims=20, moe_layers_enum="1,2,3", moe_router_scaling_factor=3.0, sliding_window=8,
            attention_other_setting=dict(attention_type="sliding_attention", num_attention_heads=6, num_attention_groups=2, head_dim=8),
            layer_types=["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
            rope_theta=[5e6, 1e4, 1e4, 5e6], partial_rotary_factors=[0.5, 1.0, 1.0, 0.5], swiglu_limits=[None, 7.0, None, 7.0],
            swiglu_limits_shared=[None, None, 16.0, None], num_nextn_predict_layers=0),
        vision_config=dict(width=16, layers=2, heads=2, image_size=35, patch_size=7, mlp_ratio=1.75)),
        dict(size=dict(height=56, width=56), patch_size=28, max_image_size=84)),
}  # fmt: skip


def model_of(name: str, folder: Path | None = None) -> Any:
    """transformers' model in float32: with weights of the seed, or as read from a folder."""
    seeing = SEEING[name]
    kind = getattr(transformers, f"{seeing.kind}ForConditionalGeneration")
    config = getattr(transformers, f"{seeing.kind}Config")(**seeing.config)
    if folder is not None:
        how = {"dtype": torch.float32, "attn_implementation": "eager", "experts_implementation": "eager", "output_loading_info": True}
        model, found = kind.from_pretrained(folder, **how)
        assert not (found["missing_keys"] or found["mismatched_keys"] or found["unexpected_keys"]), found
        return model.eval()
    model = kind(config)
    for key, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator("seeing", name, key))
        if parameter.dim() == 1:
            parameter.data = noise * 0.2 + (0.0 if key.endswith("bias") else 1.0)
        else:
            parameter.data = noise * 1.3 * (parameter[0].numel() if parameter.dim() != 3 else parameter.shape[-1]) ** -0.5
    return model


def build(name: str, scratch: Path) -> Path:
    folder = scratch / name
    model_of(name).bfloat16().save_pretrained(folder)
    mend(folder / "model.safetensors", transpose=name == "qwen3_vl_moe")
    tokens = tokenizer.tokenizer()
    tokens.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in MARKS])
    tokenizer.write(folder)
    tokens.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    (folder / "preprocessor_config.json").write_text(json.dumps(SEEING[name].preprocessor))
    ends = [tokenizer.IDS["eos"], tokenizer.IDS["turn"]]
    (folder / "generation_config.json").write_text(json.dumps(dict(eos_token_id=ends, do_sample=False)))
    return folder


def mend(file: Path, transpose: bool) -> None:
    """What transformers 5.24 does not take back to the release when it writes: names of Kimi K2.5, the layout of Qwen3-VL's experts."""
    wrong = {"language_model.model.blocks.": "language_model.model.layers.", "vision_tower.encoder.patch_embed.": "vision_tower.patch_embed."}
    tensors = load_file(file)
    for written, released in wrong.items():
        tensors = {name.replace(written, released): tensor for name, tensor in tensors.items()}
    for name in [name for name in tensors if transpose and ".experts." in name]:
        tensors[name] = tensors[name].transpose(1, 2).contiguous()
    save_file(tensors, file, metadata={"format": "pt"})


def checkpoint(name: str) -> Path:
    """Folder of the named checkpoint, built on first use."""
    return once(f"seeing-{fingerprint(Path(__file__))}", name, build)


@torch.no_grad()
def right(model: Any, ids: list[int], pictures: list[Any]) -> tuple[list[Tensor], Tensor]:
    """What transformers makes of a prompt with pictures: the embeddings of each, and the logits [tokens, W]."""
    name = next(name for name, seeing in SEEING.items() if type(model).__name__.startswith(seeing.kind))
    input_ids = torch.tensor([ids])
    media: dict[str, Any] = {}
    views = [view for picture in pictures for view in picture.views]
    if not pictures:
        media = {}
    elif name == "step3p7":
        images = [squares(view, 7) for view in views]
        ends = [sum(len(picture.views) for picture in pictures[: i + 1]) - 1 for i in range(len(pictures))]
        media = dict(pixel_values=torch.stack([images[i] for i in ends]), num_local_patches=[len(p.views) - 1 for p in pictures])
        local = [image for i, image in enumerate(images) if i not in ends]
        media |= dict(pixel_values_local=torch.stack(local)) if local else {}
    else:
        pixels = torch.cat([torch.tensor(view.patches) for view in views])
        media = dict(pixel_values=pixels.unflatten(1, (3, 6, 6)) if name == "kimi_k25" else pixels)
        media |= dict(image_grid_thw=torch.tensor([[1, *view.grid] for view in views]))
    found = model.model.get_image_features(**media).pooler_output if pictures else []
    if name == "qwen3_vl_moe":
        media |= dict(mm_token_type_ids=(input_ids == IMAGE).int())
    return list(found), model(input_ids=input_ids, use_cache=False, **media).logits[0]


def squares(view: Any, side: int) -> Tensor:
    """The pixels of a view, [3, height, width], from patches that lie row by row."""
    patches = torch.tensor(view.patches).unflatten(1, (3, side, side)).unflatten(0, view.grid)
    return patches.permute(2, 0, 3, 1, 4).flatten(3).flatten(1, 2)
