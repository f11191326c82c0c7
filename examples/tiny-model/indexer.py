"""The indexers of sparse attention, fitted to the attention that they should predict: the loss of a language model does not reach them."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear, relu


class Watch:
    """Collects what enters the indexers of a model while it runs, by layer."""

    def __init__(self, model: Any) -> None:
        self.indexers = {
            index: layer.self_attn.indexer
            for index, layer in enumerate(model.model.language_model.layers)
            if getattr(layer.self_attn, "indexer", None) is not None
        }
        self.seen: dict[int, tuple[Tensor, Tensor]] = {}
        for index, indexer in self.indexers.items():
            indexer.register_forward_pre_hook(self._hook(index), with_kwargs=True)

    def _hook(self, index: int) -> Any:
        def hook(_module: Any, _args: Any, given: dict[str, Any]) -> None:
            self.seen[index] = given["hidden_states"].detach(), given["q_resid"].detach()

        return hook

    def dense(self, tokens: int) -> None:
        """Let every indexer choose up to so many tokens."""
        for indexer in self.indexers.values():
            indexer.index_topk = tokens

    def loss(self, attention: dict[int, Tensor], owners: dict[int, int], real_BS: Tensor) -> Tensor:
        """Over all indexers. `attention` [B, H, S, S] by layer, `owners` the layer whose indexer each layer obeys."""
        total = torch.zeros(())
        for index, indexer in self.indexers.items():
            obeying = [attention[layer].detach().mean(1) for layer, owner in owners.items() if owner == index]
            total = total + divergence(indexer, *self.seen[index], sum(obeying), real_BS)  # type: ignore[arg-type]
        return total


def scores(indexer: Any, hidden_BSD: Tensor, latent_BSQ: Tensor) -> Tensor:
    """Of each complete pool for each token [B, S, P], differentiable."""
    size, width = indexer.index_kpool, indexer.head_dim
    pools = hidden_BSD.shape[1] // size
    queries = indexer.wq_b(latent_BSQ).unflatten(-1, (-1, width))
    keys, gates = (
        x[:, : pools * size].unflatten(1, (pools, size))
        for x in (indexer.k_norm(indexer.wk(hidden_BSD)), linear(hidden_BSD, indexer.index_kpool_compress_gate))
    )
    pooled = ((gates + indexer.index_kpool_compress_ape).softmax(2) * keys).sum(2)
    similar = relu(torch.einsum("bshd,bpd->bshp", queries, pooled) * indexer.softmax_scale)
    return torch.einsum("bsh,bshp->bsp", indexer.weights_proj(hidden_BSD) * indexer.n_heads**-0.5, similar)


def divergence(indexer: Any, hidden_BSD: Tensor, latent_BSQ: Tensor, attention_BSS: Tensor, real_BS: Tensor) -> Tensor:
    """Mean Kullback-Leibler divergence of the softmax of the scores from the attention that each pool gets.

    Over tokens that see two complete pools or more; `real_BS` is False for padding.
    """
    found = scores(indexer, hidden_BSD, latent_BSQ)
    size, (_, tokens, pools) = indexer.index_kpool, found.shape
    visible = torch.arange(pools) * size + size - 1 <= torch.arange(tokens)[:, None]
    wanted = attention_BSS[:, :, : pools * size].unflatten(-1, (pools, size)).sum(-1) * visible
    wanted = wanted / (wanted.sum(-1, keepdim=True) + 1e-9)
    predicted = found.masked_fill(~visible, -1e9).log_softmax(-1)
    rows = (visible.sum(-1) >= 2) & real_BS
    return (wanted * ((wanted + 1e-9).log() - predicted)).sum(-1)[rows].mean()
