"""The tower of GLM-5.3-Flash: rotated and normed queries and keys, gated networks, one convolution for each square of patches."""

from dataclasses import replace

from day0.checkpoint.axial import layers_of, read_axial, size_of, thirds
from day0.checkpoint.config import Config
from day0.checkpoint.decoder import expect
from day0.parts.dense_ffn import DenseFfn
from day0.parts.patch_embedding import PatchEmbedding
from day0.parts.pre_norm import PreNorm
from day0.parts.square_projector import SquareProjector
from day0.parts.vision_attention import VisionAttention
from day0.spec.activation import Activation, activation
from day0.spec.encoder import Encoder
from day0.spec.model import Layer, Norm
from day0.spec.names import Names

PREFIXES = ("model.visual.", "visual.")
IDLE = ("attention_dropout", "initializer_range", "image_size", "model_type")


def read(config: Config) -> Encoder | None:
    """The tower that `vision_config` describes; None without one."""
    vision = config.sub("vision_config")
    if not vision.data:
        return None
    vision.book(IDLE, "nothing: it has no effect on the numbers")
    expect(vision, attention_bias=True, in_channels=3)
    D, side = size_of(vision, "hidden_size", 1024), size_of(vision, "patch_size", 14)
    out, heads = size_of(vision, "out_hidden_size", 1536), size_of(vision, "num_heads", 16)
    merge, frames = size_of(vision, "spatial_merge_size", 2), size_of(vision, "temporal_patch_size", 2)
    norm = Norm(eps=vision.float("rms_norm_eps", 1e-5))
    act = replace(activation(vision.str("hidden_act", "silu")), limit=vision.float("swiglu_limit", 10.0))
    attention = VisionAttention(heads=heads, dim=D // heads, rope=read_axial(vision, D // heads, "rows, columns"), qk_norm=norm)
    ffn, residual = DenseFfn(width=size_of(vision, "intermediate_size", 4096), activation=act, bias=True), PreNorm(norm=norm)
    width = size_of(vision, "projection_intermediate_size", 10240)
    connector = SquareProjector(
        merge=merge, out=out, width=width, activation=act, final=norm, norm=Norm(eps=1e-5, kind="layer"),
        between=Activation(kind="gelu", gated=False),
    )  # fmt: skip
    return Encoder(
        hidden=D, patches=PatchEmbedding(side=side, frames=frames, bias=True, grid=None, merge=merge), connector=connector, out=out,
        layers=tuple(Layer(index=i, mixer=attention, ffn=ffn, residual=residual) for i in range(layers_of(vision, "depth", 24))),
        token=config.int("image_token_id", 154854), processor="glm5_next", side=side, frames=frames, merge=merge, squares=merge,
    )  # fmt: skip


NAMES = Names(
    layer="blocks.{i}.",
    tensors={
        "attn.qkv": thirds(""),
        "attn.qkv.bias": thirds("_bias"),
        "attn.proj": "mixer.o",
        "attn.proj.bias": "mixer.o_bias",
        "attn.q_norm": "mixer.q_norm",
        "attn.k_norm": "mixer.k_norm",
        **{f"mlp.{name}_proj": f"ffn.{name}" for name in ("gate", "up", "down")},
        **{f"mlp.{name}_proj.bias": f"ffn.{name}_bias" for name in ("gate", "up", "down")},
        "norm1": "residual.mixer_norm",
        "norm2": "residual.ffn_norm",
    },
    ends={
        "patch_embed.proj": "patches.proj",
        "patch_embed.proj.bias": "patches.proj_bias",
        "post_layernorm": "connector.final",
        "downsample": "connector.square",
        "downsample.bias": "connector.square_bias",
        "merger.proj": "connector.proj",
        "merger.post_projection_norm": "connector.norm",
        "merger.post_projection_norm.bias": "connector.norm_bias",
        **{f"merger.{name}_proj": f"connector.{name}" for name in ("gate", "up", "down")},
    },
    prefixes=PREFIXES,
)
