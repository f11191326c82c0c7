"""The whole model on one prompt: logits of ours and of the reference, each run through all layers on its own."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from day0.community.bench import Bench
from day0.community.compare_layers import Choices, repeated
from day0.community.statistics import Tally, compare, dtype_name
from day0.engine.probe import READERS, Probe
from day0.spec.evidence import DepthEvidence, ModelEvidence
from day0.spec.progress import Progress

ROWS = 16  # tokens whose logits are held at a time


def compare_model(bench: Bench, ids: Sequence[int], progress: Progress) -> Iterator[ModelEvidence | DepthEvidence]:
    """Evidence for the stream after each layer, and for the logits.

    With the reference's choices (experts, what attention reads) forced; and free, where there are choices.
    """
    truth_TD, own_TD = bench.truth.embed(ids), bench.own.embed(ids)
    ways = (True, False) if bench.truth.routed or _chooses(bench) else (True,)
    runs = {(dtype, way): _Run(probe, ids, way) for dtype, probe in bench.probes.items() for way in ways}
    handed = None
    for place in range(bench.truth.layers):
        progress("model", place, bench.truth.layers)
        truth = bench.truth.layer(place, truth_TD, ids=ids, handed=handed)
        same = bench.own is bench.truth
        own_TD = truth.hidden_TD if same else bench.own.layer(place, own_TD, ids=ids, handed=handed, **repeated(truth)).hidden_TD
        choices = Choices.of(bench, place, truth, handed)
        for (dtype, forced), run in runs.items():
            run.go(bench.ours(place), choices)
            if forced:
                yield _depth(bench, dtype, bench.ours(place)[-1], run.stream, truth.hidden_TD, None if dtype == torch.float32 else own_TD)
        truth_TD, handed = truth.hidden_TD, truth.handed
    streams = {key: run.stream for key, run in runs.items()}
    progress("model", bench.truth.layers, bench.truth.layers)
    for (dtype, forced), stream_TD in streams.items():
        tally = _Logits(dtype)
        for start in range(0, len(ids), ROWS):
            rows = slice(start, start + ROWS)
            right_TW = bench.truth.head(truth_TD[rows])
            tally.add(bench.probes[dtype].head(stream_TD[rows]), right_TW, None if dtype == torch.float32 else bench.own.head(own_TD[rows]))
        yield tally.evidence(forced)


def _depth(bench: Bench, dtype: torch.dtype, layer: int, ours: Tensor, right: Tensor, peer: Tensor | None) -> DepthEvidence:
    errors = compare(bench.probes[dtype].leaving(layer, ours, right), right, peer, dtype)
    return DepthEvidence(layer=layer, part="stream", dtype=dtype_name(dtype), errors=errors)


def _chooses(bench: Bench) -> bool:
    return any(site.op in READERS for site in bench.probes[torch.float32].mapped.sites)


class _Run:
    """Our stream on its way through all layers, with choices forced or its own."""

    def __init__(self, probe: Probe, ids: Sequence[int], way: bool) -> None:
        self._probe, self._ids, self._forced = probe, ids, way
        self.stream = probe.embed(ids)
        self._reads: dict[int | None, Tensor | None] = {}  # layer → what it chose to read

    def go(self, layers: range, choices: Choices) -> None:
        """Through some more layers."""
        for index in layers:
            source = self._probe.release.model.layers[index].index_source
            reads, experts = (choices.reads_TK, choices.experts_TK) if self._forced else (self._reads.get(source), None)
            result = self._probe.layer(index, self.stream, experts, [len(self._ids)], ids=self._ids, reads_TK=reads)
            self.stream, self._reads[index] = result.hidden_TD, result.reads_TK


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
