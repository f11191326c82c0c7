"""The whole model on one prompt: logits of ours and of the reference, each run through all layers on its own."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from day0.community.bench import Bench
from day0.community.statistics import compare, dtype_name
from day0.spec.evidence import ModelEvidence
from day0.spec.progress import Progress


def compare_model(bench: Bench, ids: Sequence[int], progress: Progress) -> Iterator[ModelEvidence]:
    """Evidence for the logits, with the reference's choice of experts forced; and free, where there are experts."""
    truth_TD, own_TD = bench.truth.embed(ids), bench.own.embed(ids)
    ways = (True, False) if bench.truth.routed else (True,)
    streams = {(dtype, forced): probe.embed(ids) for dtype, probe in bench.probes.items() for forced in ways}
    for index in range(bench.truth.layers):
        progress("model", index, bench.truth.layers)
        truth = bench.truth.layer(index, truth_TD)
        chosen = truth.selection.experts_TK if truth.selection else None
        truth_TD = truth.hidden_TD
        own_TD = truth_TD if bench.own is bench.truth else bench.own.layer(index, own_TD, experts_TK=chosen).hidden_TD
        for (dtype, forced), stream_TD in streams.items():
            result = bench.probes[dtype].layer(index, stream_TD, chosen if forced else None, [len(ids)])
            streams[dtype, forced] = result.hidden_TD
    progress("model", bench.truth.layers, bench.truth.layers)
    right_TW, own_TW = bench.truth.head(truth_TD), bench.own.head(own_TD)
    for (dtype, forced), stream_TD in streams.items():
        yield _evidence(dtype, forced, bench.probes[dtype].head(stream_TD), right_TW, own_TW)


def _evidence(dtype: torch.dtype, forced: bool, ours_TW: Tensor, right_TW: Tensor, own_TW: Tensor) -> ModelEvidence:
    peer = None if dtype == torch.float32 else own_TW
    return ModelEvidence(
        layer=None, part="logits", dtype=dtype_name(dtype), forced=forced, tokens=len(right_TW),
        errors=compare(ours_TW, right_TW, peer, dtype),
        top1=_agreement(ours_TW, right_TW), reference_top1=1.0 if peer is None else _agreement(peer, right_TW),
        divergence=_divergence(ours_TW, right_TW), reference_divergence=0.0 if peer is None else _divergence(peer, right_TW),
    )  # fmt: skip


def _agreement(a_TW: Tensor, b_TW: Tensor) -> float:
    return float((a_TW.argmax(-1) == b_TW.argmax(-1)).float().mean())


def _divergence(a_TW: Tensor, right_TW: Tensor) -> float:
    """Kullback-Leibler divergence of `a` from the truth, nats, mean over tokens."""
    total = 0.0
    for a_W, right_W in zip(a_TW, right_TW, strict=True):
        right_W = right_W.double().log_softmax(-1)
        total += float((right_W.exp() * (right_W - a_W.double().log_softmax(-1))).sum())
    return total / len(a_TW)
