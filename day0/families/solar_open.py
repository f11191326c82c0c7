"""Solar Open 100B: GLM-4.5's experts in every layer, over plain grouped-query attention."""

from day0.checkpoint.config import Config
from day0.checkpoint.decoder import decoder, expect, rms_norm
from day0.families.glm4_moe import NAMES, read_attention, read_layers
from day0.spec.family import Family
from day0.spec.model import Model


def read(config: Config) -> Model:
    norm = rms_norm(config, 1e-5)
    expect(config, use_qk_norm=False, first_k_dense_replace=0)
    config.book(("intermediate_size",), "nothing: no layer is dense")
    layers = read_layers(config, read_attention(config, None, theta=1e6), norm, dense=0)
    return decoder(config, family="solar_open", layers=layers, norm=norm)


FAMILY = Family(recognises=frozenset({"solar_open"}), read=read, names=NAMES)
