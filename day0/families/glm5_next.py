"""GLM-5.3-Flash: delta attention, sparse latent attention without positions whose indexer pools keys, and hyper-connections."""

from collections.abc import Iterator
from dataclasses import replace

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import decoder, per_layer, rms_norm
from day0.checkpoint.nested import read_text
from day0.families.deepseek_v3 import read_experts
from day0.families.deepseek_v4 import HYPER, read_streams
from day0.families.deepseek_v32 import NAMES as SPARSE
from day0.families.deepseek_v32 import read_indexer
from day0.families.glm_moe_dsa import index_kinds
from day0.families.kimi_linear import NAMES as LINEAR
from day0.parts.dense_ffn import DenseFfn
from day0.parts.dsa import Dsa
from day0.parts.kda import Kda
from day0.parts.mla import Mla
from day0.spec.activation import activation
from day0.spec.errors import Day0Error
from day0.spec.family import Family
from day0.spec.model import Layer, Model, Norm, PartSpec, Prediction, Tower
from day0.spec.names import Names
from day0.towers import glm5_next as tower

VISUAL = (
    "vision_config", "image_token_id", "video_token_id", "image_start_token_id", "image_end_token_id", "video_start_token_id",
    "video_end_token_id",
)  # fmt: skip
ATTENTION = ("linear_attention", "indexed_attention", "full_attention")


def read(config: Config) -> Model:
    config.book(VISUAL, "nothing: tokens of images are given in prompts")
    return read_text(config, read_language, Tower(name="vision", prefixes=tower.PREFIXES, encoder=tower.read(config)))


def read_language(config: Config) -> Model:
    """The language model; its streams end in their mean."""
    norm = rms_norm(config)
    act = replace(activation(config.str("hidden_act", "silu")), limit=config.float("swiglu_limit", 10.0))
    dense, experts = DenseFfn(width=config.int("intermediate_size"), activation=act), read_experts(config, act)
    residual, count = read_streams(config, norm), config.int("num_hidden_layers")
    ffns = config.list("mlp_layer_types", None) or ["dense"] * 3 + ["sparse"] * max(0, count - 3)
    kinds = per_layer(config, "mlp_layer_types", ffns, ("dense", "sparse"))
    layers = [
        Layer(index=i, mixer=mixer, ffn=dense if kind == "dense" else experts, residual=residual, index_source=source)
        for i, ((mixer, source), kind) in enumerate(zip(read_mixers(config, norm), kinds, strict=True))
    ]
    config.book(("num_key_value_heads", "head_dim", "qk_head_dim"), "nothing: the latent ranks say it")
    extra = config.int("num_nextn_predict_layers", 0)
    prefixes = tuple(f"{prefix}layers.{count + i}." for prefix in NAMES.prefixes[:-1] for i in range(extra))
    prediction = Prediction(count=extra, prefixes=prefixes) if extra else None
    return decoder(config, family="glm5_next", layers=layers, norm=norm, prediction=prediction)


def read_mixers(config: Config, norm: Norm) -> Iterator[tuple[PartSpec, int | None]]:
    """What mixes tokens in each layer, and the layer whose chosen tokens it reads."""
    full = config.list("layer_types", None) or [ATTENTION[i % 4 == 3] for i in range(config.int("num_hidden_layers"))]
    delta, sparse, source = read_delta(config, norm), read_attention(config, norm), None
    kinds = zip(per_layer(config, "layer_types", full, ATTENTION), index_kinds(config), strict=True)
    for i, (attention, index) in enumerate(kinds):
        if attention == "linear_attention":
            yield delta, None
        elif index == "full":
            source = i
            yield sparse, None
        elif source is None:
            raise Day0Error(f"layer {i} should reuse the index of an earlier layer", config.path, hint="key indexer_types")
        else:
            yield replace(sparse, indexer=None), source


def read_delta(config: Config, norm: Norm) -> Kda:
    nested, dim = config.sub("linear_attn_config"), config.int("linear_head_dim", None)
    dim = nested.int("head_dim") if dim is None else dim
    return Kda(
        heads=nested.int("num_heads", None) or config.int("linear_num_heads"), head_dim=dim, decay_rank=dim, gate_rank=dim, norm=norm,
        taps=nested.int("short_conv_kernel_size", None) or config.int("linear_conv_kernel_dim"),
        floor=nested.float("gate_lower_bound", None) or config.float("linear_lower_bound", None),
    )  # fmt: skip


def read_attention(config: Config, norm: Norm) -> Dsa:
    if config.int("qk_rope_head_dim", 0) or not config.bool("index_kpool_always_select_tail", True):
        raise Day0Error("rotated keys, or pools without a tail, are not this family's", config.path, hint="key qk_rope_head_dim")
    dim = config.int("qk_nope_head_dim")
    attention = Mla(
        heads=config.int("num_attention_heads"), q_lora_rank=config.int("q_lora_rank"), kv_lora_rank=config.int("kv_lora_rank"),
        qk_nope_head_dim=dim, qk_rope_head_dim=0, v_head_dim=config.int("v_head_dim"), scale=dim**-0.5, rope=None, norm=norm,
        bias=config.bool("attention_bias", False),
    )  # fmt: skip
    top_k, pool = config.int("index_topk"), config.int("index_kpool")
    if pool < 1 or top_k % pool:
        raise Day0Error(f"{top_k} tokens are not whole pools of {pool}", config.path, hint="keys index_topk, index_kpool")
    return Dsa(attention=attention, top_k=top_k, indexer=replace(read_indexer(config, interleaved=False), pool=pool))


NAMES = Names(
    layer="layers.{i}.",
    tensors={
        **SPARSE.tensors,
        **LINEAR.tensors,
        **HYPER,
        "self_attn.indexer.index_kpool_compress_gate": "mixer.indexer.pool_gate",
        "self_attn.indexer.index_kpool_compress_ape": "mixer.indexer.pool_bias",
    },
    ends={"embed_tokens": "embed", "norm": "norm", "lm_head": "head"},
    prefixes=("model.language_model.", "model.", ""),
    ignored=SPARSE.ignored,
)


FAMILY = Family(recognises=frozenset({"glm5_next", "glm5_next_text"}), read=read, names=NAMES, towers={"vision": tower.NAMES})
