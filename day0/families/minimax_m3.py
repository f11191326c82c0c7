"""MiniMax-M3: dense layers first, then block-sparse attention and experts with clamped gates, beside a vision tower."""

from collections.abc import Iterator
from dataclasses import replace

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import decoder, rms_norm
from day0.checkpoint.nested import read_text
from day0.checkpoint.rope import read_rope
from day0.families.llama import NAMES as LLAMA
from day0.parts.block_sparse import BlockSparse
from day0.parts.dense_ffn import DenseFfn
from day0.parts.gqa import Gqa
from day0.parts.moe_ffn import MoeFfn, Router
from day0.parts.pre_norm import PreNorm
from day0.spec.activation import Activation
from day0.spec.errors import Day0Error
from day0.spec.family import Family
from day0.spec.model import Layer, Model, Norm, PartSpec, Prediction, Tower
from day0.spec.names import Cut, Names

TOWER = ("vision_tower.", "multi_modal_projector.", "patch_merge_mlp.")
VISION = Tower(name="vision", prefixes=(*TOWER, *(f"model.{prefix}" for prefix in TOWER)))
VISUAL = (
    "vision_config", "image_token_index", "video_token_index", "image_token_id", "video_token_id", "projector_hidden_size",
    "multimodal_projector_bias", "img_token_compression_config", "image_grid_pinpoints", "image_seq_length", "process_image_mode",
    "projector_hidden_act", "merged_hidden_size", "vision_feature_layer", "vision_feature_select_strategy",
)  # fmt: skip
SPELLINGS = {  # ours: as released in sparse_attention_config, as transformers writes it
    "block": ("sparse_block_size", "index_block_size"),
    "top_k": ("sparse_topk_blocks", "index_topk_blocks"),
    "local": ("sparse_local_block", "index_local_blocks"),
    "index_dim": ("sparse_index_dim", "index_head_dim"),
}
NEEDED = {"sparse_score_type": "max", "sparse_init_block": 0, "use_sparse_attention": True}  # of sparse_attention_config
EXPECTED = {
    "scoring_func": "sigmoid", "use_routing_bias": True, "use_qk_norm": True, "qk_norm_type": "per_head", "attention_output_gate": False,
}  # fmt: skip


def read(config: Config) -> Model:
    config.book((*VISUAL, "num_reward_heads"), "nothing: the vision tower is not run")
    return read_text(config, read_language, VISION)


def read_language(config: Config) -> Model:
    """The language model."""
    require(config, EXPECTED)
    norm = replace(rms_norm(config), plus_one=config.bool("use_gemma_norm", True))
    act = Activation(kind="silu", alpha=config.float("swiglu_alpha"), limit=config.float("swiglu_limit"), offset=1.0)
    dense, experts = DenseFfn(width=config.int("dense_intermediate_size"), activation=act), read_experts(config, act)
    sparse = flags(config, "mlp_layer_types", "sparse", config.list("moe_layer_freq", None))
    layers = [
        Layer(index=i, mixer=mixer, ffn=experts if sparse[i] else dense, residual=PreNorm(norm=norm))
        for i, mixer in enumerate(read_attention(config, norm))
    ]
    config.book(("hidden_act", "router_jitter_noise"), "nothing: swiglu_alpha and swiglu_limit say it")
    extra = config.int("num_mtp_modules", 0)  # the published checkpoints declare such layers and hold none
    prediction = Prediction(count=extra, prefixes=("language_model.mtp.", "model.mtp.", "mtp.")) if extra else None
    return decoder(config, family="minimax_m3", layers=layers, norm=norm, prediction=prediction)


def read_attention(config: Config, norm: Norm) -> Iterator[PartSpec]:
    """The attention of each layer."""
    dim = config.int("head_dim")
    full = Gqa(
        heads=config.int("num_attention_heads"), kv_heads=config.int("num_key_value_heads"), qk_dim=dim, v_dim=dim, scale=dim**-0.5,
        rope=read_rope(config, dim, theta=5000000.0), qk_norm=norm,
    )  # fmt: skip
    if full.rope and config.int("rotary_dim", full.rope.dim) != full.rope.dim:
        raise Day0Error(f"rotary_dim is not the {full.rope.dim} of partial_rotary_factor", config.path, hint="keys contradict each other")
    nested = config.sub("sparse_attention_config")
    require(nested, NEEDED)
    heads = nested.int("sparse_num_index_heads", None) or config.int("index_n_heads", 4)
    if heads != full.kv_heads:
        raise Day0Error(f"{heads} index heads for {full.kv_heads} key heads", config.path, hint="key sparse_num_index_heads")
    sizes = {name: nested.int(released, None) or config.int(ours) for name, (released, ours) in SPELLINGS.items()}
    chosen = flags(config, "layer_types", "minimax_m3_sparse", nested.list("sparse_attention_freq", None))
    silent = nested.list("sparse_disable_index_value", None)
    if silent and any(sparse and not flag for sparse, flag in zip(chosen, silent, strict=False)):
        raise Day0Error("an indexer with values is not supported", config.path, hint="key sparse_disable_index_value")
    for sparse in chosen:
        yield BlockSparse(attention=full, index_norm=norm, **sizes) if sparse else full


def read_experts(config: Config, act: Activation) -> MoeFfn:
    router = Router(score="sigmoid", bias=True, renormalise=True, scale=config.float("routed_scaling_factor"))
    return MoeFfn(
        experts=config.int("num_local_experts"), top_k=config.int("num_experts_per_tok"), width=config.int("intermediate_size"),
        activation=act, router=router, shared_width=config.int("shared_intermediate_size") * config.int("n_shared_experts", 1),
    )  # fmt: skip


def flags(config: Config, kinds: str, kind: str, released: list[int] | None) -> list[bool]:
    """For each layer whether it is of `kind`: by the list of flags that a release has, or of names that transformers writes."""
    named = config.list(kinds, None)
    found = [bool(flag) for flag in released] if released is not None else [name == kind for name in named or ()]
    count = config.int("num_hidden_layers")
    if len(found) < count:
        raise Day0Error(f"{len(found)} layers of {count} have a kind", config.path, hint=f"key {kinds}, or the release's list of flags")
    return found[:count]


def require(config: Config, values: dict[str, object]) -> None:
    """Day0Error where a key that is there has another value."""
    for key, value in values.items():
        if (found := config.any(key, value)) != value:
            raise Day0Error(f"{config.prefix}{key} {found!r} is not supported", config.path, hint=f"supported: {value!r}")




def fused(place: str, axis: int) -> tuple[Cut, Cut]:
    """Gate and up in one tensor, as transformers writes them for the language model alone."""
    return Cut(target=f"{place}.gate", axis=axis, part=0, of=2), Cut(target=f"{place}.up", axis=axis, part=1, of=2)


EXPERTS = {"w1": "gate", "w3": "up", "w2": "down"}
NAMES = Names(
    layer=LLAMA.layer,
    tensors={
        **LLAMA.tensors,
        **{f"self_attn.index_{x}_proj": f"mixer.index_{x}" for x in "qk"},
        **{f"self_attn.index_{x}_norm": f"mixer.index_{x}_norm" for x in "qk"},
        "block_sparse_moe.gate": "ffn.router",
        "block_sparse_moe.e_score_correction_bias": "ffn.router_bias",
        **{f"block_sparse_moe.experts.{{e}}.{stored}": f"ffn.experts.{name}" for stored, name in EXPERTS.items()},
        **{f"block_sparse_moe.shared_experts.{x}_proj": f"ffn.shared.{x}" for x in ("gate", "up", "down")},
        **{f"self_attn.indexer.{x}_proj": f"mixer.index_{x}" for x in "qk"},
        **{f"self_attn.indexer.{x}_norm": f"mixer.index_{x}_norm" for x in "qk"},
        "mlp.gate": "ffn.router",
        "mlp.gate.e_score_correction_bias": "ffn.router_bias",
        "mlp.gate_up_proj": fused("ffn", axis=0),
        "mlp.shared_experts.gate_up_proj": fused("ffn.shared", axis=0),
        "mlp.shared_experts.down_proj": "ffn.shared.down",
        "mlp.experts.gate_up_proj": fused("ffn.experts", axis=1),
        "mlp.experts.down_proj": "ffn.experts.down",
    },
    ends=LLAMA.ends,
    prefixes=("", "language_model."),
)

FAMILY = Family(recognises=frozenset({"minimax_m3_vl", "minimax_m3_vl_text"}), read=read, names=NAMES)
