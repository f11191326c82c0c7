"""A model as its configuration describes it in the usual words, where no family reads it; what words cannot tell is a bracket."""

from collections.abc import Mapping, Sequence
from typing import Any

from day0.checkpoint.keys import guess
from day0.checkpoint.words import Words
from day0.engine.specs import specs
from day0.parts.dense_ffn import DenseFfn
from day0.parts.dsa import Dsa, Indexer
from day0.parts.gqa import Gqa
from day0.parts.hyper_connection import HyperConnection
from day0.parts.kda import Kda
from day0.parts.mla import Mla
from day0.parts.moe_ffn import MoeFfn, Router
from day0.parts.pre_norm import PreNorm
from day0.spec.activation import Activation
from day0.spec.model import Layer, Model, Norm, PartSpec
from day0.spec.record import record

NORM = Norm(eps=1e-6)
MOST_LAYERS = 10_000
LINEAR = ("linear", "kda", "delta", "recurrent")  # in the name of a kind of layer
WINDOWED = ("sliding", "swa", "local", "window", "chunked")
NETWORKS = ("moe", "mlp", "ffn")  # kinds of layers that mix nothing
OTHER = ("mamba", "ssm", "rwkv")  # what the usual words give no size of
SMALL = 200  # one part in 200 of the weights
SPARSE = ("sparse", "moe", "expert", "hash")


@record
class Usual:
    """What the usual words give."""

    model: Model  #: built of parts that words name
    words: Words  #: that gave it
    open: tuple[str, ...]  #: what words cannot tell, each in a sentence
    least: int  #: weights that there are, at the least
    most: int  #: weights that there may be, by what is open


def read(data: Mapping[str, Any]) -> Usual | None:
    """None where width, layers or vocabulary are not said."""
    words = Words.of(data)
    kinds = words.list("layer_types")
    hidden, count, vocab = words.int("hidden"), words.int("layers", len(kinds)), words.int("vocab")
    if not hidden or not count or not vocab or count > MOST_LAYERS:
        return None
    layers = tuple(layer(i, words, [str(kind).lower() for kind in kinds]) for i in range(count))
    model = Model(
        family="", hidden=hidden, vocab=vocab, layers=layers, norm=NORM, tied=words.bool("tie_word_embeddings"),
        context=words.int("context", 0), dtype="bfloat16", read_keys={},
    )  # fmt: skip
    return Usual(model=model, words=words, **_bracket(model, words, kinds))


def _bracket(model: Model, words: Words, kinds: Sequence[Any]) -> dict[str, Any]:
    """`least`, `most` and `open`: small weights are half a percent, a gate on the heads' output and unread widths are added at the most."""
    total = sum(spec.count for _, spec in specs(model))
    most = total + total // SMALL + sum(_gates(layer.mixer, model.hidden) for layer in model.layers)
    open = ["norms, biases and maps with few weights: half a percent", "whether the output of attention is gated"]
    used = {key for keys in words.used.values() for key in keys}
    left = {key: value for key, value in words.data.items() if words.prefix + key not in used}
    for key, value in left.items():
        if type(value) is int and 1 < value <= 4 * model.hidden and guess(key, value) == "changes shapes":
            most += len(model.layers) * 2 * model.hidden * value
            open.append(f"{key} {value}: at the most a map to that width and back in each layer")
        elif isinstance(value, list) and len(value) >= len(model.layers) and any(isinstance(entry, dict) for entry in value):
            most += 3 * total
            open.append(f"{key}: settings of each layer")
    unknown = [layer.index for layer in model.layers if layer.mixer is None and layer.ffn is None]
    if unknown:
        most += len(unknown) * 12 * model.hidden**2
        open.append(f"{len(unknown)} layers of kind {', '.join(sorted({str(kinds[i]) for i in unknown if i < len(kinds)}))}")
    return {"least": total - total // SMALL, "most": most, "open": tuple(open)}


def layer(index: int, words: Words, kinds: Sequence[str]) -> Layer:
    """One layer in the words that hold for it; where some layers are networks alone, the others have none."""
    kind = kinds[index] if index < len(kinds) else "attention"
    own = words.layer(index, windowed=any(word in kind for word in WINDOWED))
    streams = own.int("streams", 1)
    residual = HyperConnection(norm=NORM, streams=streams, iterations=1, floor=0.0) if streams > 1 else PreNorm(norm=NORM)
    if kind in NETWORKS:
        return Layer(index=index, mixer=None, ffn=network(own, routed=kind in SPARSE), residual=residual)
    ffn = None if any(name in NETWORKS for name in kinds) else network(own, routed=sparse(index, own))
    return Layer(index=index, mixer=mixer(index, kind, own), ffn=ffn, residual=residual)


def mixer(index: int, kind: str, words: Words) -> PartSpec | None:
    """Delta attention, latent attention or attention with key and value heads; None where the words name neither."""
    if any(word in kind for word in LINEAR):
        heads, dim = words.int("linear_heads"), words.int("linear_dim")
        return Kda(heads=heads, head_dim=dim, taps=words.int("linear_taps", 4), decay_rank=dim, gate_rank=dim, norm=NORM) if heads and dim else None
    heads = words.int("heads")
    if not heads or any(word in kind for word in OTHER):
        return None
    if words.int("kv_lora_rank"):
        return latent(index, words, heads)
    dim = words.int("head_dim", words.int("hidden") // heads)
    if not dim:
        return None
    window = words.int("window") if any(word in kind for word in WINDOWED) else None
    kv, value = words.int("kv_heads", heads), words.int("v_head_dim", dim)
    return Gqa(heads=heads, kv_heads=kv, qk_dim=dim, v_dim=value, scale=dim**-0.5, rope=None, window=window)


def latent(index: int, words: Words, heads: int) -> PartSpec:
    """With the indexer that chooses tokens, where there is one."""
    nope, rotary = words.int("qk_nope_head_dim", words.int("head_dim", 128)), words.int("qk_rope_head_dim", 0)
    attention = Mla(
        heads=heads, q_lora_rank=words.int("q_lora_rank"), kv_lora_rank=words.int("kv_lora_rank"), qk_nope_head_dim=nope,
        qk_rope_head_dim=rotary, v_head_dim=words.int("v_head_dim", nope), scale=(nope + rotary) ** -0.5, rope=None, norm=NORM,
    )  # fmt: skip
    top_k, kinds = words.int("index_top_k"), words.list("indexer_types")
    if not top_k or attention.q_lora_rank is None:
        return attention
    own = index >= len(kinds) or kinds[index] == "full"
    indexer = Indexer(heads=words.int("index_heads", heads), head_dim=words.int("index_dim", 128), interleaved=False, norm=NORM)
    return Dsa(attention=attention, top_k=top_k, indexer=indexer if own else None)


def network(words: Words, *, routed: bool) -> PartSpec | None:
    """Experts where the layer is `routed` and there are any, else dense."""
    experts, width = words.int("experts"), words.int("width")
    if not experts or not routed:
        return DenseFfn(width=width, activation=_activation(words)) if width else None
    narrow = words.int("expert_width", width)
    if not narrow:
        return None
    shared = words.int("shared", 1 if words.int("shared_width") else 0)
    own = words.int("shared_width")
    return MoeFfn(
        experts=experts, top_k=min(words.int("top_k", 1), experts), width=narrow, activation=_activation(words),
        identities=words.int("zero_experts", 0),
        router=Router(score="softmax"), latent=words.int("expert_hidden"), shared_width=own or shared * narrow,
    )  # fmt: skip


def sparse(index: int, words: Words) -> bool:
    """Whether a layer has experts, by a list of kinds or flags, else by the number of dense ones in front."""
    kinds = words.list("ffn_types")
    if index < len(kinds):
        return bool(kinds[index]) if isinstance(kinds[index], int) else any(word in str(kinds[index]) for word in SPARSE)
    step = words.int("sparse_step", 1)
    return index >= words.int("dense_first", 0) and index % step == step - 1


def _activation(words: Words) -> Activation:
    """Gated, but for those that have no gate by their name."""
    name = str(next((words.data[key] for key in ("mlp_hidden_act", "hidden_act") if key in words.data), ""))
    return Activation(kind="relu2", gated=False) if name in ("relu2", "relu", "squared_relu") else Activation(kind="silu")


def _gates(mixer: PartSpec | None, hidden: int) -> int:
    """Weights of a gate as wide as the heads' output; of delta attention, of a full map for the gate and one for the decay."""
    one = mixer.attention if isinstance(mixer, Dsa) else mixer
    if isinstance(one, Kda):
        return 2 * hidden * one.heads * one.head_dim
    width = one.heads * one.v_head_dim if isinstance(one, Mla) else one.heads * one.v_dim if isinstance(one, Gqa) else 0
    return hidden * width
