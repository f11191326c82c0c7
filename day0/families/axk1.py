"""A.X-K1: DeepSeek-V3 with a norm after the experts.

The release stores that norm for dense layers too, where its code does not use it, and no correction of the experts' choice.
"""

from collections.abc import Collection
from dataclasses import replace

from day0.checkpoint.config import Config
from day0.families.deepseek_v3 import NAMES as DEEPSEEK
from day0.families.deepseek_v3 import build, with_experts
from day0.parts.moe_ffn import MoeFfn
from day0.spec.family import Family
from day0.spec.model import Model
from day0.spec.names import Names

POST_NORM = "post_mlp_layernorm"
CORRECTION = "mlp.gate.e_score_correction_bias"


def read(config: Config) -> Model:
    model = build(config, "axk1", lambda attention: attention)
    dense = "|".join(str(layer.index) for layer in model.layers if not isinstance(layer.ffn, MoeFfn))
    unused = (rf"^model\.layers\.({dense})\.{POST_NORM}\.",) if dense else ()
    return replace(with_experts(model, lambda f: replace(f, out_norm=model.norm)), unused=unused)


def fit(model: Model, names: Collection[str]) -> Model:
    """Without correction biases where none is stored."""
    if any(name.endswith(CORRECTION) for name in names):
        return model
    return with_experts(model, lambda f: replace(f, router=replace(f.router, bias=False)))


NAMES = Names(
    layer=DEEPSEEK.layer,
    tensors={**DEEPSEEK.tensors, POST_NORM: "ffn.out_norm", f"mlp.{POST_NORM}": "ffn.out_norm"},
    ends=DEEPSEEK.ends,
    ignored=DEEPSEEK.ignored,
)

FAMILY = Family(recognises=frozenset({"axk1", "AXK1"}), read=read, names=NAMES, fit=fit)
