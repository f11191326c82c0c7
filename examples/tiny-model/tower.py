"""The vision tower, taught alone to say what is drawn: the loss of a language model teaches it colours and no shapes.

Each embedding learns to be close to the words for the colour and the shape of the thing that it shows a part of.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import torch
from descent import Descent
from muon import optimisers
from tasks import COLOURS, SHAPES, Sample, caption
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, layer_norm, linear, normalize, scaled_dot_product_attention
from transformers.models.glm5_next import modeling_glm5_next as community

MUON, ADAM, BATCH = 0.01, 0.003, 32
LENGTH = 1.0  # of an embedding when the tower is done, on average: text embeddings are of this order
NAMES = (list(COLOURS), list(SHAPES))
LEAST, NOBODY = 0.1, -100  # share of an embedding's square that a thing fills before it is asked for; what is not asked


class Namer(nn.Module):
    """Which word an embedding is closest to: of the colours and of the shapes, or none, by the embeddings of these words."""

    def __init__(self, words: Sequence[Tensor]) -> None:
        super().__init__()
        middle = torch.cat(list(words)).mean(0)
        self.words = [normalize(rows - middle, dim=-1) for rows in words]
        self.none = nn.ParameterList(nn.Parameter(torch.randn(1, len(middle)) * 0.02) for _ in words)
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, seen_BTD: Tensor) -> list[Tensor]:
        """[B, T, colours + 1] and [B, T, shapes + 1]."""
        seen = self.scale * layer_norm(seen_BTD, seen_BTD.shape[-1:])
        return [seen @ torch.cat([rows, none]).mT for rows, none in zip(self.words, self.none, strict=True)]


def shown(one: Sample, rows: int, columns: int) -> list[list[int]]:
    """Colour and shape in each square of a picture, by their places in `NAMES`; one more is none."""
    said = [[names.index(word) for word in one.answer.rstrip(".").split() if word in names] for names in NAMES]
    pixels = np.asarray(one.image)
    drawn = (pixels != pixels[0, 0]).any(-1).reshape(rows, pixels.shape[0] // rows, columns, -1).mean((1, 3))
    found = []
    for names, places in zip(NAMES, said, strict=True):
        of_column = np.repeat(places, columns // len(places))  # two things have a half each
        squares = np.where(drawn == 0, len(names), np.where(drawn < LEAST, NOBODY, of_column))
        found.append(squares.flatten().tolist())
    return found


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


def teach(tower: Any, words: Sequence[Tensor], processor: Any, steps: int, seed: int) -> Namer:
    """Give the tower fresh weights, and bring what it sees close to `words`, embeddings of `NAMES`; returns what judged it."""
    random, namer, merge = Random(seed), Namer(words), tower.spatial_merge_size
    tower.load_state_dict(type(tower)._from_config(tower.config, dtype=torch.float32).state_dict())
    both = nn.ModuleList([tower, namer])
    descent = Descent(both, optimisers(both, MUON, ADAM), steps)
    for _ in descent:
        samples = [caption(random) for _ in range(BATCH)]
        patches, height, width = pictures(processor, samples)
        seen, right = see(tower, patches, height, width), torch.tensor([shown(one, height // merge, width // merge) for one in samples])
        said = namer(seen)
        descent.say(f"colours {rightly(said[0], right[:, 0]):.2f} and shapes {rightly(said[1], right[:, 1]):.2f} named rightly")
        torch.stack([cross_entropy(each.flatten(0, 1), right[:, i].flatten(), ignore_index=NOBODY) for i, each in enumerate(said)]).sum().backward()
        descent.down()
    with torch.no_grad():
        tower.merger.down_proj.weight.mul_(LENGTH / seen.norm(dim=-1).mean())
    return namer


def rightly(said_BTN: Tensor, right_BT: Tensor) -> float:
    """Share of the squares with a thing that are named rightly."""
    there = (right_BT != NOBODY) & (right_BT < said_BTN.shape[-1] - 1)
    return (said_BTN.argmax(-1) == right_BT)[there].float().mean().item()
