"""The tower of Step-3.7: positions by a learned grid and by rotation, layers whose results are scaled, two convolutions that halve the grid."""

from day0.checkpoint.axial import layers_of, read_axial, size_of, thirds
from day0.checkpoint.config import Config
from day0.checkpoint.decoder import expect
from day0.parts.dense_ffn import DenseFfn
from day0.parts.patch_embedding import PatchEmbedding, PositionGrid
from day0.parts.pre_norm import PreNorm
from day0.parts.strided_projector import StridedProjector
from day0.parts.vision_attention import VisionAttention
from day0.spec.activation import Activation
from day0.spec.encoder import Encoder
from day0.spec.errors import Day0Error
from day0.spec.model import Layer, Norm
from day0.spec.names import Names

OWN = ("vision_model.", "vit_large_projector.", "multi_modal_projector.")
PREFIXES = (*OWN, *(f"model.{prefix}" for prefix in OWN))
SIZES = {("width", "hidden_size"): 1536, ("heads", "num_attention_heads"): 16}  # spellings → default
IDLE = ("ls_init_value", "layer_scale_init_value", "max_position_embeddings", "intermediate_size", "model_type", "attention_dropout")
QUICK = Activation(kind="silu", alpha=1.702, gated=False)  # the approximation of GELU that CLIP uses


def read(config: Config, out: int) -> Encoder | None:
    """The tower that `vision_config` describes; None without one. `out` is the width of the language model."""
    vision = config.sub("vision_config")
    if not vision.data:
        return None
    vision.book(IDLE, "nothing: other keys say it, or it has no effect on the numbers")
    D, heads = (size_of(vision, vision.first(*keys), default) for keys, default in SIZES.items())
    count, patch = layers_of(vision, vision.first("layers", "num_hidden_layers"), 47), size_of(vision, "patch_size", 14)
    places = max(1, size_of(vision, "image_size", 728) // patch)
    ratio = vision.float("mlp_ratio", 8960 / 1536)
    if not 0 < ratio < 1000:
        raise Day0Error(f"mlp_ratio {ratio} is no ratio of widths", config.path)
    norm = Norm(eps=vision.float("layer_norm_eps", 1e-5), kind="layer")
    expect(vision, hidden_act="quick_gelu", num_channels=3)
    rope = read_axial(vision, D // heads, "columns, rows", interleaved=True)
    ffn = DenseFfn(width=int(D * ratio), activation=QUICK, bias=True)
    attention, residual = VisionAttention(heads=heads, dim=D // heads, rope=rope), PreNorm(norm=norm, scaled=True)
    grid = PositionGrid(side=places, kernel="bilinear")
    return Encoder(
        hidden=D, patches=PatchEmbedding(side=patch, frames=1, bias=False, grid=grid, merge=1, norm=norm), out=out, view=places**2,
        layers=tuple(Layer(index=i, mixer=attention, ffn=ffn, residual=residual) for i in range(count)),
        connector=StridedProjector(convolutions=2, out=out, bias=config.bool("projector_bias", False)),
        token=config.int("image_token_id", 151679), processor="step3p7", side=patch, frames=1, merge=4,
    )  # fmt: skip


NAMES = Names(
    layer="transformer.resblocks.{i}.",
    tensors={
        "attn.in_proj_weight": thirds(""),
        "attn.in_proj_bias": thirds("_bias"),
        "attn.out_proj": "mixer.o",
        "attn.out_proj.bias": "mixer.o_bias",
        "mlp.c_fc": "ffn.up",
        "mlp.c_fc.bias": "ffn.up_bias",
        "mlp.c_proj": "ffn.down",
        "mlp.c_proj.bias": "ffn.down_bias",
        **{f"ln_{i}": f"residual.{place}_norm" for i, place in enumerate(("mixer", "ffn"), start=1)},
        **{f"ln_{i}.bias": f"residual.{place}_norm_bias" for i, place in enumerate(("mixer", "ffn"), start=1)},
        **{f"ls_{i}.gamma": f"residual.{place}_scale" for i, place in enumerate(("mixer", "ffn"), start=1)},
    },
    ends={
        "conv1": "patches.proj",
        "positional_embedding": "patches.grid",
        "ln_pre": "patches.norm",
        "ln_pre.bias": "patches.norm_bias",
        **{f"vit_downsampler{i}": f"connector.halve_{i - 1}" for i in (1, 2)},
        **{f"vit_downsampler{i}.bias": f"connector.halve_{i - 1}_bias" for i in (1, 2)},
        "vit_large_projector": "connector.proj",
        "vit_large_projector.bias": "connector.proj_bias",
    },
    prefixes=("vision_model.", "model.vision_model.", "model."),
)
