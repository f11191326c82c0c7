"""DeepSeek-V4 Flash and Pro: hyper-connections, attention over a window and compressed entries, experts chosen by token id at first."""

from collections.abc import Iterator
from dataclasses import replace

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import decoder, per_layer, rms_norm
from day0.checkpoint.rope import read_rope
from day0.parts.compressed_attention import CompressedAttention, EntryIndexer
from day0.parts.hyper_connection import HyperConnection, HyperHead
from day0.parts.moe_ffn import MoeFfn, Router
from day0.spec.activation import activation
from day0.spec.errors import Day0Error
from day0.spec.family import Family
from day0.spec.model import Layer, Model, Norm, Prediction
from day0.spec.names import Names
from day0.spec.rope import Rope

SPARSE, HEAVY = 4, 128  # tokens of an entry: with overlap and an indexer, or without
KINDS = {"sliding_attention": 0, "compressed_sparse_attention": SPARSE, "heavily_compressed_attention": HEAVY}


def read(config: Config) -> Model:
    norm = rms_norm(config)
    residual = read_streams(config, norm)
    experts, hashed = read_experts(config, table=False), read_experts(config, table=True)
    kinds, first = config.list("mlp_layer_types", None), config.int("num_hash_layers", 3)
    by_table = [kind == "hash_moe" for kind in kinds] if kinds else [i < first for i in range(config.int("num_hidden_layers"))]
    layers = [
        Layer(index=i, mixer=attention, ffn=hashed if by_table[i] else experts, residual=residual)
        for i, attention in enumerate(read_attention(config, norm))
    ]
    extra = config.int("num_nextn_predict_layers", 0)
    prediction = Prediction(count=extra, prefixes=("mtp.",)) if extra else None
    config.book(("expert_dtype", "router_jitter_noise", "mlp_bias"), "nothing: tensors say how they are stored")
    model = decoder(config, family="deepseek_v4", layers=layers, norm=norm, prediction=prediction)
    return replace(model, collapse=HyperHead(streams=residual.streams))


def read_streams(config: Config, norm: Norm) -> HyperConnection:
    """The residual streams."""
    return HyperConnection(
        norm=norm, streams=config.int("hc_mult"), iterations=config.int("hc_sinkhorn_iters"), floor=config.float("hc_eps", 1e-6)
    )


def read_attention(config: Config, norm: Norm) -> Iterator[CompressedAttention]:
    """The attention of each layer."""
    if config.int("num_key_value_heads", 1) != 1 or config.bool("attention_bias", False):
        raise Day0Error("several key heads or a bias are not this family's", config.path, hint="num_key_value_heads")
    dim = config.int("head_dim")
    rotary = config.int("qk_rope_head_dim", None) or int(dim * config.float("partial_rotary_factor", 0.125))
    near, far = read_ropes(config, dim, rotary)
    indexer = EntryIndexer(heads=config.int("index_n_heads"), dim=config.int("index_head_dim"), top_k=config.int("index_topk"))
    window = CompressedAttention(
        heads=config.int("num_attention_heads"), head_dim=dim, q_lora_rank=config.int("q_lora_rank"), out_groups=config.int("o_groups"),
        out_lora_rank=config.int("o_lora_rank"), window=config.int("sliding_window"), scale=dim**-0.5, rope=near, norm=norm,
    )  # fmt: skip
    for every, sparse in read_runs(config):
        entries = replace(window, rope=far, every=every, overlap=sparse, indexer=indexer if sparse else None)
        yield entries if every else window


def read_runs(config: Config) -> Iterator[tuple[int, bool]]:
    """For each layer the tokens of an entry, 0 where there are none, and whether entries overlap and are chosen."""
    kinds = config.list("layer_types", None)
    ratios = config.list("compress_ratios", None)  # one more for each prediction layer
    if kinds is None and ratios is None:
        raise Day0Error("key compress_ratios is missing", config.path, hint="it says how each layer attends")
    rates = config.sub("compress_rates")
    for kind in per_layer(config, "layer_types", kinds, KINDS) if kinds else ():
        yield rates.int(kind, KINDS[kind]) if KINDS[kind] else 0, KINDS[kind] == SPARSE
    for every in per_layer(config, "compress_ratios", ratios, ratios) if ratios and not kinds else ():
        yield int(every), int(every) == SPARSE


def read_ropes(config: Config, dim: int, rotary: int) -> tuple[Rope, Rope]:
    """(of layers that see a window only, of layers with entries): only the second is stretched; its factor on cosine and sine is one."""
    near = Rope(dim=rotary, theta=config.float("rope_theta", 10000.0), interleaved=True)
    nested = config.sub("rope_parameters")
    stretch = nested.sub("compress") if "compress" in nested else None
    if "main" in nested:
        near = read_rope(config, dim, interleaved=True, stretch=nested.sub("main"))
        config.book(("compress_rope_theta", "partial_rotary_factor"), "nothing: each rope says its own")
    far = read_rope(config, dim, interleaved=True, stretch=stretch)
    theta = far.theta if stretch else config.float("compress_rope_theta", 160000.0)
    return near, replace(far, dim=rotary, theta=theta, attention_factor=1.0)


def read_experts(config: Config, *, table: bool) -> MoeFfn:
    score = config.str("scoring_func", "sqrtsoftplus")
    if score != "sqrtsoftplus" or config.str("topk_method", "noaux_tc") != "noaux_tc":
        raise Day0Error(f"routing over {score!r} is not this family's", config.path, hint="keys scoring_func, topk_method")
    width = config.int("moe_intermediate_size")
    router = Router(
        score="sqrt_softplus", bias=not table, table=table, renormalise=config.bool("norm_topk_prob", True), epsilon=1e-20,
        scale=config.float("routed_scaling_factor"),
    )  # fmt: skip
    return MoeFfn(
        experts=config.int("n_routed_experts"), top_k=config.int("num_experts_per_tok"), width=width, router=router,
        activation=replace(activation(config.str("hidden_act", "silu")), limit=config.float("swiglu_limit")),
        vocab=config.int("vocab_size") if table else 0, shared_width=width * config.int("n_shared_experts"),
    )  # fmt: skip


HYPER = {
    f"hc_{stored}_{leaf}": f"residual.{place}_{name}"
    for stored, place in (("attn", "mixer"), ("ffn", "ffn"))
    for leaf, name in {"fn": "mix", "base": "base", "scale": "scale"}.items()
}
NAMES = Names(
    layer="layers.{i}.",
    tensors={
        **{f"attn.w{name}": f"mixer.{name}" for name in ("q_a", "q_b", "kv", "o_a", "o_b")},
        "attn.q_norm": "mixer.q_a_norm",
        "attn.kv_norm": "mixer.kv_norm",
        "attn.norm": "mixer.kv_norm",  # as transformers writes it
        "attn.attn_sink": "mixer.sinks",
        "attn.indexer.wq_b": "mixer.index_q",
        "attn.indexer.weights_proj": "mixer.index_weights",
        "ffn.gate": "ffn.router",
        "ffn.gate.bias": "ffn.router_bias",
        "ffn.gate.tid2eid": "ffn.router_table",
        **{
            f"attn.{place}compressor.{stored}": f"mixer.{name}_{leaf}"
            for place, name in (("", "compress"), ("indexer.", "index"))
            for stored, leaf in {"wkv": "kv", "wgate": "gate", "ape": "bias", "norm": "norm"}.items()
        },
        **{
            f"ffn.{bank}.{stored}": f"ffn.{name}.{leaf}"
            for bank, name in (("experts.{e}", "experts"), ("shared_experts", "shared"))
            for stored, leaf in {"w1": "gate", "w3": "up", "w2": "down"}.items()
        },
        "attn_norm": "residual.mixer_norm",
        "ffn_norm": "residual.ffn_norm",
        **HYPER,
    },
    ends={
        **{name: name for name in ("embed", "norm", "head")},
        **{f"hc_head_{stored}": f"collapse.{name}" for stored, name in (("fn", "mix"), ("base", "base"), ("scale", "scale"))},
        "embed_tokens": "embed",  # this and what follows as transformers writes it
        **{f"hc_head.hc_{stored}": f"collapse.{name}" for stored, name in (("fn", "mix"), ("base", "base"), ("scale", "scale"))},
    },
    prefixes=("", "model."),
)

FAMILY = Family(recognises=frozenset({"deepseek_v4", "deepseek_ref"}), read=read, names=NAMES)
