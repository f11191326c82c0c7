"""Kimi K3's plain reference of tests/families as what `validate` compares with: transformers has no class for it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from day0.checkpoint.folder import Checkpoint
from day0.community.reference import LayerRun
from tests.families.kimi_k3_reference import Reference
from tests.zoo.folder import read_shards


class PlainReference:
    """In float64 whatever the type. The stream is [T, S, D]: starts of blocks, then the sum since the last one began."""

    routed = False  # its experts cannot be forced

    def __init__(self, stored: Any, text: dict[str, Any]) -> None:
        self._plain = Reference(stored, text)
        self._size = text["attn_res_block_size"]
        self.layers: int = text["num_hidden_layers"]

    def embed(self, ids: Sequence[int]) -> Tensor:
        return self._plain.weight("model.embed_tokens.weight")[list(ids)][:, None].float()

    def normed(self, stream_TSD: Tensor) -> Tensor:
        *blocks, prefix = stream_TSD.double().unbind(1)
        last = self._plain.mix(blocks, prefix, "model.output_attn_res")
        return self._plain.norm(last, "model.norm.weight").float()

    def head(self, stream_TSD: Tensor) -> Tensor:
        *blocks, prefix = stream_TSD.double().unbind(1)
        last = self._plain.mix(blocks, prefix, "model.output_attn_res")
        return (self._plain.norm(last, "model.norm.weight") @ self._plain.weight("lm_head.weight").T).float()

    def layer(self, index: int, stream_TSD: Tensor, **_others: Any) -> LayerRun:
        plain, at = self._plain, f"model.layers.{index}."
        *blocks, prefix = stream_TSD.double().unbind(1)
        mixed = plain.mix(blocks, prefix, f"{at}self_attention_res") if blocks else prefix
        attended = plain.attend(plain.norm(mixed, f"{at}input_layernorm.weight"), index)
        if index % self._size == 0:
            blocks, prefix = [*blocks, prefix], attended
        else:
            prefix = prefix + attended
        mixed = plain.mix(blocks, prefix, f"{at}mlp_res")
        fed = plain.feed(plain.norm(mixed, f"{at}post_attention_layernorm.weight"), index)
        hidden = torch.stack([*blocks, prefix + fed], dim=1)
        return LayerRun(hidden_TD=hidden.float(), parts={"mixer": attended.float(), "ffn": fed.float()})

    def rotary(self, index: int, positions_T: Tensor) -> None:
        """It has no positions."""

    @contextmanager
    def loaded(self, _index: int) -> Iterator[None]:
        yield


def open_plain(checkpoint: Checkpoint, _dtype: torch.dtype, _device: torch.device) -> PlainReference:
    return PlainReference(read_shards(checkpoint.folder), checkpoint.config.data["text_config"])


against = ("tests/families/kimi_k3_reference.py", open_plain)
