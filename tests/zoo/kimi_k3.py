"""Kimi K3 at a tiny size, in the layout of its release; transformers has no class for it, so a naive reference computes what is right.

Ten layers in blocks of four, delta and latent attention in an irregular tail, one dense layer. `A_log` is stored longer than it counts,
layer 0 has weights that nothing reads, and tensors of a vision tower lie beside. Routed experts are bfloat16 or MXFP4.
"""
import json
from functools import cache
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from tests.families.kimi_k3_reference import Reference

from . import draw, folder, tokenizer
from .cache import fingerprint, once
from .reference import NEW_TOKENS, RANDOM, TEXTS, prompts

HIDDEN, VOCABULARY, LAYERS, LATENT, EXPERT, EXPERTS, DELTA_HEADS, DELTA_DIM, STORED_HEADS = 60, 296, 10, 32, 64, 12, 3, 20, 8
FULL = [4, 8, 9, 10]
SEEDS = {"kimi_k3": 8, "kimi_k3-mxfp4": 7}
FLOAT32 = ("A_log", "dt_bias", "conv1d.weight", "o_norm.weight", "e_score_correction_bias")
TEXT = dict(
    model_type="kimi_linear", architectures=["KimiLinearForCausalLM"], vocab_size=VOCABULARY, hidden_size=HIDDEN, hidden_act="situ",
    activation_situ_beta=4.0, activation_situ_linear_beta=25.0, attn_res_block_size=4, num_hidden_layers=LAYERS, rms_norm_eps=1e-5,
    intermediate_size=108, first_k_dense_replace=1, moe_layer_freq=1, moe_intermediate_size=EXPERT, routed_expert_hidden_size=LATENT,
    latent_moe_use_norm=True, num_experts=EXPERTS, num_experts_per_token=3, num_shared_experts=2, num_expert_group=1, topk_group=1,
    use_grouped_topk=True, topk_method="noaux_tc", moe_renormalize=True, moe_router_activation_func="sigmoid", routed_scaling_factor=1.0,
    num_attention_heads=4, num_key_value_heads=4, q_lora_rank=24, kv_lora_rank=28, qk_nope_head_dim=16, qk_rope_head_dim=12, v_head_dim=20,
    mla_use_nope=True, mla_use_output_gate=True, max_position_embeddings=256, tie_word_embeddings=False, num_nextn_predict_layers=0,
    dtype="bfloat16", initializer_range=0.02, use_cache=True,
    linear_attn_config=dict(
        kda_layers=[i for i in range(1, LAYERS + 1) if i not in FULL], full_attn_layers=FULL, num_heads=DELTA_HEADS, head_dim=DELTA_DIM,
        short_conv_kernel_size=4, gate_lower_bound=-5.0, use_full_rank_gate=True),
)
PACKED = dict(
    quant_method="compressed-tensors", format="mxfp4-pack-quantized", quantization_status="compressed",
    ignore=["re:.*self_attn.*", "re:.*shared_experts.*", "re:.*mlp\\.(gate|up|gate_up|down)_proj.*", "re:.*lm_head.*"],
    config_groups=dict(group_0=dict(format="mxfp4-pack-quantized", targets=["Linear"], input_activations=None, output_activations=None,
                                    weights=dict(num_bits=4, type="float", strategy="group", group_size=32, symmetric=True,
                                                 dynamic=False, scale_dtype="torch.uint8"))),
)


def attention_shapes(index):
    """Name -> shape of the attention of one layer."""
    width = DELTA_HEADS * DELTA_DIM
    if index + 1 in FULL:
        heads, values = TEXT["num_attention_heads"], TEXT["num_attention_heads"] * TEXT["v_head_dim"]
        return {"q_a_proj.weight": (24, HIDDEN), "q_a_layernorm.weight": (24,), "q_b_proj.weight": (heads * 28, 24),
                "kv_a_proj_with_mqa.weight": (28 + 12, HIDDEN), "kv_a_layernorm.weight": (28,), "kv_b_proj.weight": (heads * 36, 28),
                "g_proj.weight": (values, HIDDEN), "o_proj.weight": (HIDDEN, values)}
    return {**{f"{x}_proj.weight": (width, HIDDEN) for x in "qkvg"}, **{f"{x}_conv1d.weight": (width, 1, 4) for x in "qkv"},
            "f_a_proj.weight": (DELTA_DIM, HIDDEN), "f_b_proj.weight": (width, DELTA_DIM), "b_proj.weight": (DELTA_HEADS, HIDDEN),
            "A_log": (STORED_HEADS,), "dt_bias": (width,), "o_norm.weight": (DELTA_DIM,), "o_proj.weight": (HIDDEN, width)}


def mlp_shapes(width):
    return {"gate_proj.weight": (width, HIDDEN), "up_proj.weight": (width, HIDDEN), "down_proj.weight": (HIDDEN, width)}


def expert_shapes():
    """Name -> shape of everything of a mixture but its routed experts, and of those."""
    rest = {"gate.weight": (EXPERTS, HIDDEN), "gate.e_score_correction_bias": (EXPERTS,),
            "routed_expert_down_proj.weight": (LATENT, HIDDEN), "routed_expert_up_proj.weight": (HIDDEN, LATENT),
            "routed_expert_norm.weight": (LATENT,)}
    rest |= {f"shared_experts.{name}": shape for name, shape in mlp_shapes(2 * EXPERT).items()}
    matrices = {"w1.weight": (EXPERT, LATENT), "w3.weight": (EXPERT, LATENT), "w2.weight": (LATENT, EXPERT)}
    return rest | {f"experts.{e}.{name}": shape for e in range(EXPERTS) for name, shape in matrices.items()}


def shapes():
    """Name -> shape of every stored tensor, before experts are packed."""
    found = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN), "model.norm.weight": (HIDDEN,), "lm_head.weight": (VOCABULARY, HIDDEN)}
    places = {"model.output_attn_res": None}
    for i in range(LAYERS):
        layer = f"model.layers.{i}."
        found |= {f"{layer}{norm}.weight": (HIDDEN,) for norm in ("input_layernorm", "post_attention_layernorm")}
        places |= dict.fromkeys((f"{layer}self_attention_res", f"{layer}mlp_res"))
        found |= {f"{layer}self_attn.{name}": shape for name, shape in attention_shapes(i).items()}
        inner = expert_shapes() if i else mlp_shapes(TEXT["intermediate_size"])
        found |= {f"{layer}{'block_sparse_moe' if i else 'mlp'}.{name}": shape for name, shape in inner.items()}
    for place in places:
        found |= {f"{place}_norm.weight": (HIDDEN,), f"{place}_proj.weight": (1, HIDDEN)}
    found = {f"language_model.{name}": shape for name, shape in found.items()}
    return found | {"vision_tower.patch_embed.proj.weight": (16, 3, 2, 2), "mm_projector.proj.0.weight": (HIDDEN, 16)}


def values(label, seed, name, shape):
    """One tensor as stored: rates and biases of the decay where they matter, queries of the mixes far from uniform."""
    gen = draw.generator(label, seed, name)
    if name.endswith("A_log"):
        return 0.5 * draw.noise(shape, gen)
    if name.endswith("dt_bias"):
        return -2.0 + draw.noise(shape, gen)
    if name.endswith("_res_proj.weight"):
        return (2.0 * shape[-1] ** -0.5 * draw.noise(shape, gen)).bfloat16()
    if "conv1d" in name:
        return 0.5 * draw.noise(shape, gen)
    drawn = draw.tensor(label, seed, name, shape, False)
    return drawn.float() if name.endswith(FLOAT32) else drawn


def pack(label, seed, name, shape):
    """Random codes and scales of an MXFP4 matrix of about the usual spread."""
    gen = draw.generator(label, seed, name)
    rows, columns = shape
    codes = torch.randint(0, 256, (rows, columns // 2), generator=gen, dtype=torch.uint8)
    usual = 127 - round(torch.tensor(2.9 * columns**0.5).log2().item())
    scales = usual + torch.randint(-1, 2, (rows, columns // 32), generator=gen)
    return {f"{name}_packed": codes, f"{name}_scale": scales.to(torch.uint8)}


def stored_tensors(name, seed):
    """Name -> tensor as it goes on disk."""
    tensors = {}
    for tensor, shape in shapes().items():
        if name.endswith("mxfp4") and ".experts." in tensor:
            tensors |= pack(name, seed, tensor, shape)
        else:
            tensors[tensor] = values(name, seed, tensor, shape)
    return tensors


def config_json(name):
    """Content of config.json."""
    text = TEXT | (dict(quantization_config=PACKED) if name.endswith("mxfp4") else {})
    return dict(
        model_type="kimi_k3", architectures=["KimiK3ForConditionalGeneration"], text_config=text, tie_word_embeddings=False,
        vision_config=dict(patch_size=2), dtype="bfloat16", **tokenizer.CONFIG_IDS)


def build(name, out):
    """Write OUT/<name>, with logits in float64, and return that folder."""
    target, tensors = Path(out) / name, stored_tensors(name, SEEDS[name])
    target.mkdir(parents=True, exist_ok=True)
    folder.write_json(target / "config.json", config_json(name))
    folder.write_json(target / "generation_config.json", dict(eos_token_id=tokenizer.IDS["eos"], do_sample=False))
    tokenizer.write(target)
    folder.write_shards(target, tensors)
    results, notes = right(Reference(tensors, config_json(name)["text_config"]))
    save_file(results, target / "expected.safetensors")
    folder.write_json(target / "expected.json", dict(name=name, seed=SEEDS[name], lengths=[*TEXTS, RANDOM], **notes))
    return target


def right(reference):
    """-> tensors of expected.safetensors, and the margins of the discrete choices on the prompts."""
    found, closest = {}, float("inf")
    for length, ids in prompts(VOCABULARY).items():
        logits = reference.logits(ids[0].tolist())
        found |= {f"input_ids_{length}": ids, f"logits_{length}": logits[None]}
        tokens = ids[0].tolist()
        for _ in range(NEW_TOKENS if length < RANDOM else 0):
            best = reference.logits(tokens)[-1].topk(2)
            tokens.append(best.indices[0].item())
            closest = min(closest, (best.values[0] - best.values[1]).item())
        found[f"greedy_{length}"] = torch.tensor([tokens[length:]], dtype=torch.int64)
    return found, dict(topk_margin=reference.margin, greedy_margin=closest)


def search(name, seeds):
    """Yield (seed, least margin of a choice of experts on the prompts)."""
    for seed in seeds:
        reference = Reference(stored_tensors(name, seed), TEXT)
        for ids in prompts(VOCABULARY).values():
            reference.logits(ids[0].tolist())
        yield seed, reference.margin


@cache
def checkpoint(name):
    """Folder of one of `SEEDS`, built once a machine."""
    here = Path(__file__)
    group = f"kimi-k3-{fingerprint(here)}-{fingerprint(here.parents[1] / 'families' / 'kimi_k3_reference.py')}"
    return once(group, name, build)


def expected(name):
    """Prompts, logits [tokens, vocabulary] in float64 and greedy continuations."""
    tensors = load_file(checkpoint(name) / "expected.safetensors")
    lengths = json.loads((checkpoint(name) / "expected.json").read_text())["lengths"]
    return [tuple(tensors[f"{kind}_{n}"][0] for kind in ("input_ids", "logits", "greedy")) for n in lengths]
