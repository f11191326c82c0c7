"""The vision tower, taught alone to say what is drawn: the loss of a language model teaches it colours and hardly shapes."""

from collections.abc import Sequence
from random import Random
from typing import Any

import torch
from descent import Descent
from muon import optimisers
from tasks import COLOURS, SHAPES, Sample, caption
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear, scaled_dot_product_attention
from transformers.models.glm5_next import modeling_glm5_next as community

MUON, ADAM, BATCH = 0.01, 0.003, 32
LENGTH = 1.0  # of an embedding when the tower is done, on average: text embeddings are of this order


class Reader(nn.Module):
    """Colour and shape of the first and of the second thing in a picture, or that there is none, from its embeddings."""

    def __init__(self, width: int, tokens: int, heads: int = 4) -> None:
        super().__init__()
        self.places, self.wanted = nn.Parameter(torch.randn(tokens, width) * 0.02), nn.Parameter(torch.randn(2, width) * 0.5)
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.names = nn.ModuleList(nn.Linear(width, len(names) + 1) for names in (COLOURS, SHAPES))

    def forward(self, seen_BTD: Tensor) -> list[Tensor]:
        """[B, 2, colours + 1] and [B, 2, shapes + 1]."""
        seen = self.before(seen_BTD) + self.places
        read, _ = self.attention(self.wanted.expand(len(seen), -1, -1), seen, seen, need_weights=False)
        return [name(self.after(read)) for name in self.names]


def drawn(one: Sample) -> list[list[int]]:
    """Colours and shapes that an answer names, each in order, filled to two with "none"."""
    words = one.answer.lower().rstrip(".").split()
    said = [[list(names).index(word) for word in words if word in names] for names in (COLOURS, SHAPES)]
    return [[*found, len(names)][:2] for found, names in zip(said, (COLOURS, SHAPES), strict=True)]


def see(tower: Any, patches_BPK: Tensor, height: int, width: int) -> Tensor:
    """Embeddings [B, T, D] of pictures of one size in patches: what the tower of transformers computes one by one.

    Convolutions whose stride is their kernel are products; both frames of a picture are the same, so that their kernels add up.
    """
    first, merge = tower.patch_embed.proj, tower.spatial_merge_size
    kernel = first.weight.sum(2).flatten(1)
    one_frame = patches_BPK.unflatten(-1, (first.in_channels, first.kernel_size[0], -1))[:, :, :, 0].flatten(2)
    x = linear(one_frame, kernel, first.bias)
    turn = tower.rotary_pos_emb(x, community.get_vision_position_ids(torch.tensor([[1, height, width]]), merge, kwargs={}))
    for block in tower.blocks:
        attention = block.attn
        q, k, v = attention.qkv(block.norm1(x)).unflatten(-1, (3, attention.num_heads, -1)).unbind(2)
        q, k = community.apply_rotary_pos_emb_vision(attention.q_norm(q), attention.k_norm(k), *turn)
        read = scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), scale=attention.scaling)
        x = x + attention.proj(read.transpose(1, 2).flatten(2))
        x = x + block.mlp(block.norm2(x))
    squares = tower.post_layernorm(x).unflatten(1, (-1, merge**2)).mT.flatten(2)
    return tower.merger(linear(squares, tower.downsample.weight.flatten(1), tower.downsample.bias))


def pictures(processor: Any, samples: Sequence[Sample]) -> tuple[Tensor, int, int]:
    """Patches [B, P, K] of pictures of one size, and how many there are above and beside one another."""
    media = processor([one.image for one in samples], return_tensors="pt")
    _, height, width = media["image_grid_thw"][0].tolist()
    return media["pixel_values"].unflatten(0, (len(samples), -1)), height, width


def teach(tower: Any, processor: Any, steps: int, seed: int) -> Reader:
    """Give the tower fresh weights, and lower the loss of a reader that names what it sees; returns the reader."""
    random = Random(seed)
    tower.load_state_dict(type(tower)._from_config(tower.config, dtype=torch.float32).state_dict())
    _, height, width = pictures(processor, [caption(random)])
    reader = Reader(tower.config.out_hidden_size, height * width // tower.spatial_merge_size**2)
    both = nn.ModuleList([tower, reader])
    descent = Descent(both, optimisers(both, MUON, ADAM), steps)
    for _ in descent:
        samples = [caption(random) for _ in range(BATCH)]
        seen, right = see(tower, *pictures(processor, samples)), torch.tensor([drawn(one) for one in samples])
        said = reader(seen)
        descent.say(f"named rightly {rightly(said, right):.2f}")
        torch.stack([cross_entropy(each.flatten(0, 1), right[:, i].flatten()) for i, each in enumerate(said)]).sum().backward()
        descent.down()
    with torch.no_grad():
        tower.merger.down_proj.weight.mul_(LENGTH / seen.norm(dim=-1).mean())
    return reader


def rightly(said: Sequence[Tensor], right_BKT: Tensor) -> float:
    """Share of pictures of which all is named."""
    return torch.stack([each.argmax(-1) for each in said], 1).eq(right_BKT).all(-1).all(-1).float().mean().item()
