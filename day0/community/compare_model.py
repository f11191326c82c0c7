"""The whole model on one prompt: logits of ours and of the reference, each run through all layers on its own."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from day0.community.bench import Bench
from day0.community.statistics import Tally, dtype_name
from day0.spec.evidence import ModelEvidence
from day0.spec.progress import Progress

ROWS = 16  # tokens whose logits are held at a time


def compare_model(bench: Bench, ids: Sequence[int], progress: Progress) -> Iterator[ModelEvidence]:
    """Evidence for the logits, with the reference's choices forced (experts, positions to read); and free, where there are experts."""
    truth_TD, own_TD = bench.truth.embed(ids), bench.own.embed(ids)
    ways = (True, False) if bench.truth.routed else (True,)
    streams = {(dtype, forced): probe.embed(ids) for dtype, probe in bench.probes.items() for forced in ways}
    for index in range(bench.truth.layers):
        progress("model", index, bench.truth.layers)
        truth = bench.truth.layer(index, truth_TD)
        chosen = truth.selection.experts_TK if truth.selection else None
        truth_TD, read = truth.hidden_TD, truth.indices_TK
        own_TD = truth_TD if bench.own is bench.truth else bench.own.layer(index, own_TD, 0, chosen, read).hidden_TD
        for (dtype, forced), stream_TD in streams.items():
            experts_TK, indices_TK = (chosen, read) if forced else (None, None)
            result = bench.probes[dtype].layer(index, stream_TD, experts_TK, [len(ids)], indices_TK=indices_TK)
            streams[dtype, forced] = result.hidden_TD
    progress("model", bench.truth.layers, bench.truth.layers)
    for (dtype, forced), stream_TD in streams.items():
        tally = _Logits(dtype)
        for start in range(0, len(ids), ROWS):
            rows = slice(start, start + ROWS)
            right_TW = bench.truth.head(truth_TD[rows])
            tally.add(bench.probes[dtype].head(stream_TD[rows]), right_TW, None if dtype == torch.float32 else bench.own.head(own_TD[rows]))
        yield tally.evidence(forced)


class _Logits:
    """Logits of some tokens at a time, against the truth and next to the reference in our type."""

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype, self._tally = dtype, Tally(dtype)
        self._sums = [0.0] * 4  # tokens with the same best next token and divergence, ours and the reference's
        self._tokens = 0

    def add(self, ours_TW: Tensor, right_TW: Tensor, peer_TW: Tensor | None) -> None:
        """[some tokens, W]."""
        self._tally.add(ours_TW, right_TW, peer_TW)
        self._tokens += len(right_TW)
        other_TW = right_TW if peer_TW is None else peer_TW
        found = [measure(logits_TW, right_TW) for measure in (_agreement, _divergence) for logits_TW in (ours_TW, other_TW)]
        self._sums = [total + value for total, value in zip(self._sums, found, strict=True)]

    def evidence(self, forced: bool) -> ModelEvidence:
        """Of all tokens."""
        top1, reference_top1, divergence, reference_divergence = (total / self._tokens for total in self._sums)
        return ModelEvidence(
            layer=None, part="logits", dtype=dtype_name(self._dtype), forced=forced, tokens=self._tokens, errors=self._tally.errors(),
            top1=top1, reference_top1=reference_top1, divergence=divergence, reference_divergence=reference_divergence,
        )  # fmt: skip


def _agreement(a_TW: Tensor, b_TW: Tensor) -> int:
    """Tokens with the same best next token."""
    return int((a_TW.argmax(-1) == b_TW.argmax(-1)).sum())


def _divergence(a_TW: Tensor, right_TW: Tensor) -> float:
    """Kullback-Leibler divergence of `a` from the truth, nats, summed over tokens."""
    total = 0.0
    for a_W, right_W in zip(a_TW, right_TW, strict=True):
        right_W = right_W.double().log_softmax(-1)
        total += float((right_W.exp() * (right_W - a_W.double().log_softmax(-1))).sum())
    return total
