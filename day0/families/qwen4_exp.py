"""Qwen3.8-Flash-Next: gated DeltaNet and sparse gated attention between low-rank hyper-connections, and an embedding of n-grams."""

from dataclasses import replace

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import decoder
from day0.checkpoint.nested import read_text
from day0.families.qwen3_5_moe import NAMES as QWEN
from day0.families.qwen3_next import read_experts, read_mixers, read_norm
from day0.parts.gated_attention import GatedAttention
from day0.parts.gated_residual import GatedResidual, GatedResidualEnd
from day0.parts.gdn import Gdn
from day0.parts.ngram_embedding import NgramEmbedding
from day0.parts.qsa import Qsa
from day0.spec.errors import Day0Error
from day0.spec.family import Family
from day0.spec.model import Layer, Model, Norm, PartSpec, Prediction, Tower
from day0.spec.names import Names

VISION = Tower(name="vision", prefixes=("model.visual.", "visual."))
FULL = ("full_attention", "indexed_attention")  # both names are in use for layers with an indexer
MOST_PRIMES = 512  # that are looked for
LARGEST = 1 << 30  # of them


def read(config: Config) -> Model:
    return read_text(config, read_language, VISION)


def read_language(config: Config) -> Model:
    norm = read_norm(config)
    streams, rank = config.int("hc_count"), config.int("hc_lowrank")
    residual = GatedResidual(streams=streams, rank=rank, eps=norm.eps)
    experts, grams = read_experts(config), read_ngrams(config, streams, norm)
    layers = [
        Layer(index=i, mixer=mixer, ffn=experts, residual=residual, embedding=grams.get(i))
        for i, mixer in enumerate(read_kinds(config, norm))
    ]
    extra = config.int("mtp_num_hidden_layers", 0)
    config.book(("mtp_use_dedicated_embeddings", "number_of_conv_states"), "nothing: prediction layers are left out, parts say their state")
    config.book(("attn_output_gate", "mamba_ssm_dtype", "mlp_only_layers", "intermediate_size"), "nothing: this family has no other way")
    sections = ("mrope_section", "mrope_interleaved")
    config.sub("rope_parameters").book(sections, "nothing: in text, time, height and width are one position")
    prediction = Prediction(count=extra, prefixes=("mtp.",)) if extra else None
    model = decoder(config, family="qwen4_exp", layers=layers, norm=None, prediction=prediction)
    return replace(model, collapse=GatedResidualEnd(streams=streams, rank=rank))


def read_kinds(config: Config, norm: Norm) -> list[PartSpec]:
    """What mixes tokens in each layer."""
    if config.int("indexer_kv_heads") != 1:
        raise Day0Error("an indexer with several key heads is not supported", config.path, hint="key indexer_kv_heads")
    gate = config.str("output_gate_type", None) or config.str("hidden_act", "silu")
    if gate not in ("silu", "sigmoid"):
        raise Day0Error(f"output gate {gate!r} is not supported", config.path, hint="key output_gate_type: silu or sigmoid")
    block = config.int("indexer_compress_ratio")
    sizes = {"index_heads": config.int("indexer_n_heads"), "index_dim": config.int("indexer_head_dim")}
    mixers: list[PartSpec] = []
    for mixer in read_mixers(config, norm, grouped=False, full_names=FULL):
        if isinstance(mixer, GatedAttention):
            mixers.append(Qsa(attention=mixer, index_norm=norm, block=block, top_k=config.int("indexer_budget") // block, **sizes))
        else:
            assert isinstance(mixer, Gdn)
            mixers.append(replace(mixer, gate=gate))
    return mixers


def read_ngrams(config: Config, streams: int, norm: Norm) -> dict[int, NgramEmbedding]:
    """Layer → its n-grams; the configuration counts layers from 1. Head sizes are the primes from the base on, all layers in one row."""
    size, each = config.int("ngram_size", 3), config.int("heads_per_ngram", 8)
    base, divisor = config.int("ngram_vocab_size_base", 20_000_000), config.int("make_ngram_vocab_size_divisible_by", 128)
    hidden, layers = config.int("hidden_size"), sorted(set(config.list("ple_layer_ids", [])))
    config.book(("seed",), "nothing: the checkpoint holds the multipliers that it gives")
    parts, end = config.int("split_ngram_parts", 512), config.any("eos_token_id", None)
    width, taps = config.int("ple_embed_dim", hidden), config.int("ple_conv_kernel_size", 4)
    end = end[0] if isinstance(end, list) and end else end
    if layers and not isinstance(end, int):
        raise Day0Error("n-grams need the token that ends a text", config.path, hint="key eos_token_id")
    heads, found, prime = (size - 1) * each, {}, base - 1
    if heads * len(layers) > MOST_PRIMES or base > LARGEST:
        raise Day0Error(f"{heads} heads of {base:.4g} n-grams in {len(layers)} layers are beyond all bounds"[:160], config.path)
    for layer in layers:
        total = 0
        for _ in range(heads):
            prime = next_prime(prime)
            total += prime
        rows = -(-total // divisor) * divisor
        if rows % parts:
            raise Day0Error(f"{rows} n-gram rows are not {parts} equal parts", config.path, hint="key split_ngram_parts")
        found[layer - 1] = NgramEmbedding(
            streams=streams, channels=streams * hidden, size=size, heads=heads, rows=rows, parts=parts, width=width, taps=taps, end=end,
            eps=norm.eps,
        )  # fmt: skip
    return found


def next_prime(number: int) -> int:
    """The smallest prime above `number`."""
    number += 1
    while number < 2 or any(number % divisor == 0 for divisor in range(2, int(number**0.5) + 1)):
        number += 1
    return number


NAMES = Names(
    layer=QWEN.layer,
    tensors={
        **QWEN.tensors,
        "self_attn.indexer.index_qk_proj": "mixer.index_qk",
        "self_attn.indexer.q_layernorm": "mixer.index_q_norm",
        "self_attn.indexer.k_layernorm": "mixer.index_k_norm",
        **{
            f"{stored}_hyper_connection.{leaf}": f"residual.{place}_{name}"
            for stored, place in (("attn", "mixer"), ("mlp", "ffn"))
            for leaf, name in {
                "hc_norm": "norm", "input_mix_weight_down": "down", "input_mix_weight_up": "up", "block_inject_weight": "inject",
            }.items()
        },
        **{f"ple.{x}_proj": f"embedding.{x}" for x in ("key", "value")},
        **{f"ple.norm_{x}": f"embedding.{name}_norm" for x, name in (("query", "query"), ("key", "key"), ("conv", "value"))},
        "ple.conv1d": "embedding.conv",
        "ple.ple_embedding.layer_multipliers": "embedding.multipliers",
        "ple.ple_embedding.ngram_heads_vocab_sizes": "embedding.sizes",
        "ple.ple_embedding.ngram_heads_offsets": "embedding.offsets",
        "ple.ple_embedding.ngram_embedding.shard_{e}": "embedding.table",
    },
    ends={
        **QWEN.ends,
        "hyper_connection_mixer.hc_norm": "collapse.norm",
        "hyper_connection_mixer.input_mix_weight_down": "collapse.down",
        "hyper_connection_mixer.input_mix_weight_up": "collapse.up",
    },
    prefixes=QWEN.prefixes,
    ignored=QWEN.ignored,
)

FAMILY = Family(recognises=frozenset({"qwen4_exp", "qwen4_exp_text"}), read=read, names=NAMES)
