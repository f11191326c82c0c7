"""A.X-K1: DeepSeek-V3 with a norm after the experts.

The release stores that norm for dense layers too, where its code does not use it, and no correction of the experts' choice.
"""

import re
from collections.abc import Collection
from dataclasses import replace

from day0.checkpoint.config import Config
from day0.families.deepseek_v3 import NAMES as DEEPSEEK
from day0.families.deepseek_v3 import build
from day0.parts.moe_ffn import MoeFfn
from day0.parts.pre_norm import PreNorm
from day0.parts.sandwich_norm import SandwichNorm
from day0.spec.family import Family
from day0.spec.model import Layer, Model
from day0.spec.names import Names

POST_NORM = "post_mlp_layernorm"
CORRECTION = "mlp.gate.e_score_correction_bias"


def read(config: Config) -> Model:
    model = build(config, "axk1", lambda attention: attention)
    dense = "|".join(str(layer.index) for layer in model.layers if not isinstance(layer.ffn, MoeFfn))
    unused = (rf"^model\.layers\.({dense})\.{re.escape(POST_NORM)}\.",) if dense else ()
    return replace(model, layers=tuple(map(normed, model.layers)), unused=unused)


def normed(layer: Layer) -> Layer:
    """The layer with a norm after its experts, where it has any."""
    assert isinstance(layer.residual, PreNorm)
    return replace(layer, residual=SandwichNorm(norm=layer.residual.norm, after=("ffn",))) if isinstance(layer.ffn, MoeFfn) else layer


def fit(model: Model, names: Collection[str]) -> Model:
    """Without correction biases where none is stored."""
    if any(name.endswith(CORRECTION) for name in names):
        return model
    return replace(model, layers=tuple(map(uncorrected, model.layers)))


def uncorrected(layer: Layer) -> Layer:
    if not isinstance(layer.ffn, MoeFfn):
        return layer
    return replace(layer, ffn=replace(layer.ffn, router=replace(layer.ffn.router, bias=False)))


NAMES = Names(
    layer=DEEPSEEK.layer,
    tensors={**DEEPSEEK.tensors, POST_NORM: "residual.ffn_post_norm", f"mlp.{POST_NORM}": "residual.ffn_post_norm"},
    ends=DEEPSEEK.ends,
    ignored=DEEPSEEK.ignored,
)

FAMILY = Family(recognises=frozenset({"axk1", "AXK1"}), read=read, names=NAMES, fit=fit)
