"""The tower of Qwen3-VL: a learned grid resampled to the image, and networks that join squares of patches, also after early layers."""

from dataclasses import replace
from math import isqrt

from day0.checkpoint.axial import layers_of, read_axial, size_of, thirds
from day0.checkpoint.config import Config
from day0.checkpoint.decoder import expect
from day0.parts.dense_ffn import DenseFfn
from day0.parts.patch_embedding import PatchEmbedding, PositionGrid
from day0.parts.patch_merger import PatchMerger
from day0.parts.pre_norm import PreNorm
from day0.parts.vision_attention import VisionAttention
from day0.spec.activation import activation
from day0.spec.encoder import Encoder
from day0.spec.errors import Day0Error
from day0.spec.model import Layer, Norm
from day0.spec.names import Names

PREFIXES = ("model.visual.", "visual.")
IDLE = ("initializer_range", "model_type")
NORM = Norm(eps=1e-6, kind="layer")


def read(config: Config) -> Encoder | None:
    """The tower that `vision_config` describes; None without one."""
    vision = config.sub("vision_config")
    if not vision.data:
        return None
    vision.book(IDLE, "nothing: it has no effect on the numbers")
    expect(vision, in_channels=3)
    D, heads, out = size_of(vision, "hidden_size", 1152), size_of(vision, "num_heads", 16), size_of(vision, "out_hidden_size", 3584)
    patch, merge, frames = size_of(vision, "patch_size", 16), size_of(vision, "spatial_merge_size", 2), size_of(vision, "temporal_patch_size", 2)
    places, count = size_of(vision, "num_position_embeddings", 2304, most=1 << 24), layers_of(vision, "depth", 27)
    grid = PositionGrid(side=isqrt(places), kernel="bilinear", corners=True)
    act, tapped = activation(vision.str("hidden_act", "gelu_pytorch_tanh"), gated=False), vision.list("deepstack_visual_indexes", [8, 16, 24])
    if grid.side**2 != places or any(type(i) is not int or not 0 <= i < count for i in tapped) or len(set(tapped)) < len(tapped):
        raise Day0Error("positions that are no square, or taps after layers that are not there", config.path, hint="deepstack_visual_indexes")
    attention = VisionAttention(heads=heads, dim=D // heads, rope=read_axial(vision, D // heads, "rows, columns"))
    ffn = DenseFfn(width=size_of(vision, "intermediate_size", 4304), activation=act, bias=True)
    merger = PatchMerger(merge=merge, ordered=True, norm=NORM, joined=False, activation=activation("gelu", gated=False), out=out)
    return Encoder(
        hidden=D, patches=PatchEmbedding(side=patch, frames=frames, bias=True, grid=grid, merge=merge), connector=merger, out=out,
        layers=tuple(Layer(index=i, mixer=attention, ffn=ffn, residual=PreNorm(norm=NORM)) for i in range(count)),
        taps=tuple((after, replace(merger, joined=True)) for after in tapped), token=config.int("image_token_id", 151655),
        processor="qwen2_vl", side=patch, frames=frames, merge=merge, squares=merge,
    )  # fmt: skip


def merger(stored: str, place: str) -> dict[str, str]:
    """Names of one network that joins squares."""
    names = {"norm": "norm", "linear_fc1": "up", "linear_fc2": "down"}
    both = [(source, target, end) for source, target in names.items() for end in ("", "bias")]
    return {f"{stored}.{source}" + (".bias" if end else ""): f"{place}.{target}" + ("_bias" if end else "") for source, target, end in both}


MOST_TAPS = 16
NAMES = Names(
    layer="blocks.{i}.",
    tensors={
        "attn.qkv": thirds(""),
        "attn.qkv.bias": thirds("_bias"),
        "attn.proj": "mixer.o",
        "attn.proj.bias": "mixer.o_bias",
        "mlp.linear_fc1": "ffn.up",
        "mlp.linear_fc1.bias": "ffn.up_bias",
        "mlp.linear_fc2": "ffn.down",
        "mlp.linear_fc2.bias": "ffn.down_bias",
        **{f"norm{i}": f"residual.{place}_norm" for i, place in enumerate(("mixer", "ffn"), start=1)},
        **{f"norm{i}.bias": f"residual.{place}_norm_bias" for i, place in enumerate(("mixer", "ffn"), start=1)},
    },
    ends={
        "patch_embed.proj": "patches.proj",
        "patch_embed.proj.bias": "patches.proj_bias",
        "pos_embed": "patches.grid",
        **merger("merger", "connector"),
        **{key: name for i in range(MOST_TAPS) for key, name in merger(f"deepstack_merger_list.{i}", f"taps.{i}").items()},
    },
    prefixes=PREFIXES,
)
