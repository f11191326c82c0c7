"""Rows of the n-grams that end at each token, added to the residual streams."""

from typing import Any

from torch import Tensor

from day0.parts.ngram_embedding import NgramEmbedding
from day0.spec.block import MixerBlock
from day0.spec.step import Segment


def run(streams_TMD: Tensor, e: NgramEmbedding, w: Any, state: Any, segment: Segment, ops: Any) -> Tensor:
    """What is added to the streams [T, M, D], in both phases."""
    rows_THD, context = ops.ngram_embedding(
        segment.tokens_T, state.read("ngram", segment), w.table, w.multipliers, w.sizes, w.offsets, e.end, segment.queries
    )
    state.write("ngram", context, segment)
    D = streams_TMD.shape[-1]
    keys, value_TD = ops.linear(rows_THD.flatten(1), w.projections).split((e.streams * D, D), dim=-1)
    norms = (w.query_norm, w.key_norm, w.value_norm)
    values_TMD, normed_TMD = ops.ngram_gate(streams_TMD, keys.view_as(streams_TMD), value_TD, *norms, e.eps)
    carried = state.read("ngram_conv", segment)
    local, carried = ops.short_convolution(normed_TMD.flatten(1), w.conv, carried, segment.queries, None, e.size)
    state.write("ngram_conv", carried, segment)
    return values_TMD + local.view_as(values_TMD)


BLOCK = MixerBlock(prefill=run, decode=run)
