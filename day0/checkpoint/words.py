"""The figures of a model under whatever names configurations give them, for releases that no family reads."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

TEXT = ("text_config", "llm_config", "language_config", "thinker_config", "model_config", "decoder")
SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "hidden": ("hidden_size", "d_model", "n_embd", "model_dim", "dim", "embed_dim"),
    "layers": ("num_hidden_layers", "n_layers", "num_layers", "n_layer", "num_blocks", "depth"),
    "vocab": ("vocab_size", "padded_vocab_size", "n_vocab"),
    "context": ("max_position_embeddings", "model_max_length", "max_seq_len", "max_sequence_length", "n_positions", "seq_length"),
    "heads": ("num_attention_heads", "n_heads", "n_head", "num_heads", "attention_heads"),
    "kv_heads": ("num_key_value_heads", "n_kv_heads", "num_kv_heads", "multi_query_group_num", "n_head_kv"),
    "head_dim": ("head_dim", "kv_channels", "attention_head_dim", "d_head", "qk_head_dim"),
    "q_lora_rank": ("q_lora_rank",),
    "kv_lora_rank": ("kv_lora_rank",),
    "qk_nope_head_dim": ("qk_nope_head_dim",),
    "qk_rope_head_dim": ("qk_rope_head_dim",),
    "v_head_dim": ("v_head_dim",),
    "index_heads": ("index_n_heads", "index_num_heads", "indexer_num_heads"),
    "index_dim": ("index_head_dim", "indexer_head_dim"),
    "index_top_k": ("index_topk", "index_top_k", "indexer_topk"),
    "experts": ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts", "num_routed_experts", "n_experts"),
    "top_k": (
        "num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk", "moe_top_k", "moe_k", "top_k_experts",
        "num_selected_experts", "router_top_k", "num_activated_experts",
    ),
    "zero_experts": ("zero_expert_num", "n_zero_experts"),
    "expert_width": (
        "moe_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size", "expert_intermediate_size", "expert_dim",
        "intermediate_size",
    ),
    "expert_hidden": ("routed_expert_hidden_size", "moe_latent_size", "moe_hidden_size"),
    "shared": ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert"),
    "shared_width": (
        "moe_shared_expert_intermediate_size", "shared_expert_intermediate_size", "shared_experts_intermediate_size",
        "shared_intermediate_size", "share_expert_dim",
    ),
    "sparse_step": ("interleave_moe_layer_step", "decoder_sparse_step", "moe_layer_freq"),
    "width": (
        "dense_intermediate_size", "intermediate_size_mlp", "intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "d_ff",
    ),
    "dense_first": ("first_k_dense_replace", "moe_layer_start_index", "num_dense_layers", "n_dense_layers", "first_dense_layers"),
    "linear_heads": ("linear_num_heads", "linear_num_value_heads"),
    "linear_dim": ("linear_head_dim", "linear_value_head_dim"),
    "linear_taps": ("linear_conv_kernel_dim", "short_conv_kernel_size"),
    "streams": ("hc_mult",),
    "window": ("sliding_window", "sliding_window_size", "attention_window"),
    "predictions": ("num_nextn_predict_layers", "num_mtp_modules", "mtp_num_hidden_layers", "num_mtp_layers", "mtp_num_layers"),
}  # fmt: skip
LISTS: Mapping[str, tuple[str, ...]] = {
    "layer_types": ("layer_types", "layers_block_type", "attention_types"),
    "ffn_types": ("mlp_layer_types", "moe_layer_freq", "ffn_types"),
    "indexer_types": ("indexer_types",),
}
WINDOWED = "swa_"  # before a key: its value in layers that see a window


class Words:
    """A configuration asked by figure instead of by key; remembers which key answered."""

    def __init__(self, data: Mapping[str, Any], prefix: str = "", used: dict[str, list[str]] | None = None) -> None:
        self.data, self.prefix = data, prefix
        self.used: dict[str, list[str]] = {} if used is None else used  # figure → dotted keys

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "Words":
        """Of the language model within a configuration: the object that says how many layers there are, the outermost one first."""
        for prefix, inner in _objects(data):
            if any(type(inner.get(key)) is int for key in SPELLINGS["hidden"]):
                return cls(inner, prefix)
        return cls(data)

    def layer(self, index: int, windowed: bool = False) -> "Words":
        """The same for one layer: `per_layer_config` and keys of windowed layers come first."""
        special = self.data.get("per_layer_config")
        own: Any = next((special[key] for key in (str(index), f"{index:02d}") if key in special), {}) if isinstance(special, Mapping) else {}
        swapped = {key.removeprefix(WINDOWED): value for key, value in self.data.items() if windowed and key.startswith(WINDOWED)}
        if not own and not swapped:
            return self
        return Words({**self.data, **swapped, **(own if isinstance(own, Mapping) else {})}, self.prefix, self.used)

    def int(self, figure: str, default: Any = None) -> Any:
        """The first whole number above zero under one of its keys."""
        for key in SPELLINGS[figure]:
            value = self.data.get(key)
            if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1 << 40 and value == int(value):
                self._book(figure, key)
                return int(value)
        return default

    def list(self, figure: str) -> Sequence[Any]:
        """One entry for each layer; empty where there is no such list."""
        for key in LISTS[figure]:
            value = self.data.get(key)
            if isinstance(value, list) and value:
                self._book(figure, key)
                return value
        return []

    def bool(self, key: str) -> bool:
        """Whether a key is true."""
        if self.data.get(key) is True:
            self._book(key, key)
        return self.data.get(key) is True

    def text(self, *keys: str) -> str | None:
        """The first name under one of several keys, `torch_dtype` beside `dtype`."""
        found = (self.data.get(key) for key in (*keys, *(f"torch_{key}" for key in keys)))
        return next((value for value in found if isinstance(value, str)), None)

    def _book(self, figure: str, key: str) -> None:
        keys = self.used.setdefault(figure, [])
        if self.prefix + key not in keys:
            keys.append(self.prefix + key)


def _objects(data: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(prefix of its keys, object): the whole, what holds a language model by name, then whatever else is an object, as often as nested."""
    yield "", data
    for key in (*TEXT, *(key for key in data if key not in TEXT and "vision" not in key and "audio" not in key)):
        inner = data.get(key)
        if isinstance(inner, Mapping):
            yield f"{key}.", inner
            yield from ((f"{key}.{prefix}", found) for prefix, found in _objects(inner) if prefix)
