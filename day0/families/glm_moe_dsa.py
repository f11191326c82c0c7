"""GLM-5, 5.1 and 5.2: DeepSeek-V3.2 in other sizes, where some layers reuse the tokens that an earlier layer's indexer picked."""

from dataclasses import replace

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import per_layer
from day0.families.deepseek_v3 import build
from day0.families.deepseek_v32 import NAMES, read_indexer
from day0.parts.dsa import Dsa
from day0.spec.errors import Day0Error
from day0.spec.family import Family
from day0.spec.model import Model

LETTERS = {"F": "full", "S": "shared"}  # of index_topk_pattern


def read(config: Config) -> Model:
    indexer = read_indexer(config, interleaved=config.bool("indexer_rope_interleave", True))
    model = build(config, "glm_moe_dsa", lambda attention: Dsa(attention=attention, top_k=config.int("index_topk"), indexer=indexer))
    config.book(("index_share_for_mtp_iteration",), "nothing: prediction layers are left out")
    config.book(("moe_router_dtype",), "nothing: routers compute in float32")
    config.book(("layer_types", "num_experts", "mlp_bias"), "nothing: other keys say it")
    layers, source = [], None
    for layer, kind in zip(model.layers, index_kinds(config), strict=True):
        assert isinstance(layer.mixer, Dsa)
        if kind == "full":
            layers.append(layer)
            source = layer.index
        elif source is None:
            hint = "keys indexer_types, index_topk_pattern"
            raise Day0Error("layer 0 should reuse the index of an earlier layer", config.path, hint=hint)
        else:
            layers.append(replace(layer, mixer=replace(layer.mixer, indexer=None), index_source=source))
    return replace(model, layers=tuple(layers), unread_keys=config.unread())


def index_kinds(config: Config) -> list[str]:
    """For each layer "full" (an indexer of its own) or "shared": a list, a pattern such as "FSSF", or every `index_topk_freq`th layer."""
    count, pattern = config.int("num_hidden_layers"), config.any("index_topk_pattern", None)
    frequency, offset = max(config.int("index_topk_freq", 1), 1), config.int("index_skip_topk_offset", 2)
    kinds = config.list("indexer_types", None)
    if kinds is None and isinstance(pattern, str | list):
        kinds = [LETTERS.get(letter, letter) for letter in pattern]
    if kinds is None:
        kinds = ["full" if max(i - offset + 1, 0) % frequency == 0 else "shared" for i in range(count)]
    return list(per_layer(config, "indexer_types", kinds, LETTERS.values()))


FAMILY = Family(recognises=frozenset({"glm_moe_dsa"}), read=read, names=NAMES)
