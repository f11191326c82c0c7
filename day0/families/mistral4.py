"""Mistral Small 4: latent attention whose queries grow with their position, softmax routing renormalised over the chosen experts."""

from dataclasses import replace

from day0.checkpoint.config import Config
from day0.families.deepseek_v3 import NAMES as DEEPSEEK
from day0.families.deepseek_v3 import build, with_experts
from day0.spec.family import Family
from day0.spec.model import Model
from day0.spec.names import Cut, Names
from day0.spec.temperature import Temperature


def read(config: Config) -> Model:
    model = build(config, "mistral4", lambda attention: replace(attention, temperature=read_temperature(config)))
    model = with_experts(model, lambda f: replace(f, router=replace(f.router, score="softmax", bias=False)))
    return replace(model, unread_keys=config.unread())


def read_temperature(config: Config) -> Temperature | None:
    """From keys beside the rotation's; None where the release has none."""
    stretch = config.sub("rope_parameters")
    stretch.book(("max_position_embeddings",), "nothing: factor and original_max_position_embeddings say it")
    beta = stretch.float("llama_4_scaling_beta", None)
    return Temperature(beta=beta, context=stretch.int("original_max_position_embeddings")) if beta else None


NAMES = Names(
    layer=DEEPSEEK.layer,
    tensors={
        **DEEPSEEK.tensors,
        "mlp.experts.gate_up_proj": (
            Cut(target="ffn.experts.gate", axis=1, part=0, of=2),
            Cut(target="ffn.experts.up", axis=1, part=1, of=2),
        ),
        "mlp.experts.down_proj": "ffn.experts.down",
    },
    ends=DEEPSEEK.ends,
    prefixes=("", "language_model."),
    ignored=DEEPSEEK.ignored,
)

FAMILY = Family(recognises=frozenset({"mistral4"}), read=read, names=NAMES)
