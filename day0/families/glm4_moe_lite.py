"""GLM-4.7-Flash: DeepSeek-V3's latent attention and experts, with defaults of its own."""

from day0.checkpoint.config import Config
from day0.families.deepseek_v3 import NAMES, build
from day0.spec.family import Family
from day0.spec.model import Model

DEFAULTS = dict(rms_norm_eps=1e-5, first_k_dense_replace=1, n_shared_experts=1, routed_scaling_factor=1.8)


def read(config: Config) -> Model:
    return build(Config({**DEFAULTS, **config.data}, config.path, config.prefix, config.read_keys), "glm4_moe_lite", lambda mixer: mixer)


FAMILY = Family(recognises=frozenset({"glm4_moe_lite"}), read=read, names=NAMES)
