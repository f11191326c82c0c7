"""MoonViT, the tower of Kimi K2.5: a learned grid resampled to the image, rotation by column and row in turn, squares of patches joined."""

from day0.checkpoint.axial import read_axial, size_of, thirds
from day0.checkpoint.config import Config
from day0.checkpoint.decoder import expect
from day0.checkpoint.nested import WRITTEN
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

PREFIXES = ("vision_tower.", "mm_projector.", "model.vision_tower.", "model.mm_projector.")
IDLE = ("_attn_implementation", "model_type", "mm_hidden_size", "text_hidden_size", "init_pos_emb_time", "pos_emb_time", "video_attn_type")
SIZES = {  # key → (default, most)
    "hidden_size": (1152, 1 << 16), "intermediate_size": (4304, 1 << 16), "num_hidden_layers": (27, 1000),
    "num_attention_heads": (16, 1 << 16),
}  # fmt: skip
NORM = Norm(eps=1e-5, kind="layer")


def read(config: Config, out: int) -> Encoder | None:
    """The tower that `vision_config` describes; None without one. `out` is the width of the language model."""
    vision = config.sub("vision_config")
    if not vision.data:
        return None
    vision.book((*IDLE, *WRITTEN), "nothing: it has no effect on images")
    expect(vision, merge_type="sd2_tpool", mm_projector_type="patchmerger", pos_emb_type="divided_fixed", projector_hidden_act="gelu")
    D, width, count, heads = (size(vision, key, *bounds) for key, bounds in SIZES.items())
    kernel, patch = vision.list("merge_kernel_size", [2, 2]), size_of(vision, "patch_size", 14)
    side = size_of(vision, vision.first("init_pos_emb_height", "pos_emb_height"), 64)
    merge = kernel[0] if kernel and type(kernel[0]) is int else 0
    if kernel != [merge, merge] or merge < 1 or vision.int(vision.first("init_pos_emb_width", "pos_emb_width"), 64) != side:
        raise Day0Error("squares of patches and the grid of positions must have equal sides", config.path, hint="key merge_kernel_size")
    vision.book(("pos_emb_height", "pos_emb_width"), "nothing: the release's own spelling says it")
    rope = read_axial(vision, D // heads, "column and row in turn", interleaved=True)
    act = activation(vision.str("hidden_act", "gelu_pytorch_tanh"), gated=False)
    attention, ffn = VisionAttention(heads=heads, dim=D // heads, rope=rope), DenseFfn(width=width, activation=act, bias=True)
    grid = PositionGrid(side=side, kernel="bicubic", square=True)
    eps = config.float("projection_layer_norm_eps", vision.float("projector_ln_eps", 1e-5))
    connector = PatchMerger(
        merge=merge, ordered=False, norm=Norm(eps=eps, kind="layer"), joined=False,
        activation=activation("gelu", gated=False), out=out, final=NORM,
    )  # fmt: skip
    return Encoder(
        hidden=D, patches=PatchEmbedding(side=patch, frames=1, bias=True, grid=grid, merge=1), connector=connector, out=out,
        layers=tuple(Layer(index=i, mixer=attention, ffn=ffn, residual=PreNorm(norm=NORM)) for i in range(count)),
        token=config.int(config.first("media_placeholder_token_id", "image_token_id"), 163605), processor="kimi_k25", side=patch, frames=1,
        merge=merge,
    )  # fmt: skip


def size(vision: Config, key: str, default: int, most: int) -> int:
    """As released, "vt_hidden_size", or as transformers writes it; both may stand there."""
    found = size_of(vision, vision.first(f"vt_{key}", key), default, most)
    vision.book((key,), "nothing: the release's own spelling says it")
    return found


NAMES = Names(
    layer="encoder.blocks.{i}.",
    tensors={
        "wqkv": thirds(""),
        "wqkv.bias": thirds("_bias"),
        "wo": "mixer.o",
        "wo.bias": "mixer.o_bias",
        "mlp.fc0": "ffn.up",
        "mlp.fc0.bias": "ffn.up_bias",
        "mlp.fc1": "ffn.down",
        "mlp.fc1.bias": "ffn.down_bias",
        **{f"norm{i}": f"residual.{place}_norm" for i, place in enumerate(("mixer", "ffn"))},
        **{f"norm{i}.bias": f"residual.{place}_norm_bias" for i, place in enumerate(("mixer", "ffn"))},
    },
    ends={
        "patch_embed.proj": "patches.proj",
        "patch_embed.proj.bias": "patches.proj_bias",
        "patch_embed.pos_emb": "patches.grid",
        "encoder.final_layernorm": "connector.final",
        "encoder.final_layernorm.bias": "connector.final_bias",
        "pre_norm": "connector.norm",
        "pre_norm.bias": "connector.norm_bias",
        "proj.0": "connector.up",
        "proj.0.bias": "connector.up_bias",
        "proj.2": "connector.down",
        "proj.2.bias": "connector.down_bias",
    },
    prefixes=PREFIXES,
    ignored=(r"pos_emb\.time_weight$",),
)
