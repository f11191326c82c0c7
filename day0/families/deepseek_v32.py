"""DeepSeek-V3.2 (arXiv 2512.02556): DeepSeek-V3 whose layers attend to the tokens that an indexer of their own picks.

The release rotates the indexer's queries and keys by a Hadamard matrix, which no score depends on, before it rounds them to FP8.
"""

from day0.checkpoint.config import Config
from day0.families.deepseek_v3 import NAMES as DEEPSEEK
from day0.families.deepseek_v3 import build
from day0.parts.dsa import Dsa, Indexer
from day0.spec.errors import Day0Error
from day0.spec.family import Family
from day0.spec.model import Model, Norm
from day0.spec.names import Names

KEY_NORM = Norm(eps=1e-6, kind="layer")  # the release's code gives this epsilon, whatever rms_norm_eps says


def read(config: Config) -> Model:
    indexer = read_indexer(config, interleaved=False)
    return build(config, "deepseek_v32", lambda attention: Dsa(attention=attention, top_k=config.int("index_topk"), indexer=indexer))


def read_indexer(config: Config, *, interleaved: bool) -> Indexer:
    if config.int("q_lora_rank", None) is None:
        raise Day0Error("the indexer reads the query latent, and q_lora_rank is null", config.path)
    return Indexer(heads=config.int("index_n_heads"), head_dim=config.int("index_head_dim"), interleaved=interleaved, norm=KEY_NORM)


NAMES = Names(
    layer=DEEPSEEK.layer,
    tensors={
        **DEEPSEEK.tensors,
        "self_attn.indexer.wq_b": "mixer.indexer.q",
        "self_attn.indexer.wk": "mixer.indexer.k",
        "self_attn.indexer.k_norm": "mixer.indexer.k_norm",
        "self_attn.indexer.k_norm.bias": "mixer.indexer.k_norm_bias",
        "self_attn.indexer.weights_proj": "mixer.indexer.weights",
    },
    ends=DEEPSEEK.ends,
    ignored=DEEPSEEK.ignored,
)

FAMILY = Family(recognises=frozenset({"deepseek_v32"}), read=read, names=NAMES)
