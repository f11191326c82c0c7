"""The whole model on one prompt: logits of ours and of the reference, each run through all layers on its own."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from day0.community.bench import Bench
from day0.community.compare_layers import Choices, repeated
from day0.community.null import Reordered
from day0.community.pattern import EXPLAINED
from day0.community.statistics import Tally, compare, dtype_name
from day0.community.variants import alternatives
from day0.engine.probe import READERS, Call, Probe
from day0.spec.evidence import Errors
from day0.spec.whole_evidence import DepthEvidence, ModelEvidence, NormEvidence

FAULT = 2e-5  # relative error in float32 that rounding does not explain
ROWS = 16  # tokens whose logits are held at a time
SURE = 6.0  # times the reference's error of a logit: four deviations of the difference of two


class Passes:
    """The model's passes over one prompt: of the reference, in both types, and of ours; they go from layer to layer together.

    With the reference's choices (experts, what attention reads) forced; and free, where there are choices.
    """

    def __init__(self, bench: Bench, ids: Sequence[int]) -> None:
        self._bench, self._ids = bench, ids
        ways = (True, False) if bench.truth.routed or _chooses(bench) else (True,)
        self._runs = {(dtype, way): _Run(probe, ids, way) for dtype, probe in bench.probes.items() for way in ways}
        self._truth_TD = self._own_TD = self._null_TD = torch.empty(0)
        self._handed: Tensor | None = None

    def embed(self) -> None:
        """Begin."""
        self._truth_TD, self._own_TD = self._bench.truth.embed(self._ids), self._bench.own.embed(self._ids)
        self._null_TD = self._own_TD
        for run in self._runs.values():
            run.embed()

    def go(self, place: int) -> Iterator[DepthEvidence]:
        """Through one layer of the reference: evidence for the streams that leave it."""
        bench, ids = self._bench, self._ids
        truth = bench.truth.layer(place, self._truth_TD, ids=ids, handed=self._handed)
        if bench.own is bench.truth:
            self._own_TD = self._null_TD = truth.hidden_TD
        else:
            with bench.own.loaded(place):
                given = {"ids": ids, "handed": self._handed} | repeated(truth)
                self._own_TD = bench.own.layer(place, self._own_TD, **given).hidden_TD
                with Reordered():
                    self._null_TD = bench.own.layer(place, self._null_TD, **given).hidden_TD
        choices = Choices.of(bench, place, truth, self._handed)
        for (dtype, forced), run in self._runs.items():
            run.go(bench.ours(place), choices)
            if forced:
                others = (None, None) if dtype == torch.float32 else (self._own_TD, self._null_TD)
                yield _depth(bench, dtype, bench.ours(place)[-1], run.stream, truth.hidden_TD, *others)
        self._truth_TD, self._handed = truth.hidden_TD, truth.handed

    def norm(self) -> Iterator[NormEvidence]:
        """Evidence for what the head reads, after the last layer: of the reference's own stream, so that no layer's error is in it."""
        bench, ids = self._bench, self._ids
        right_TD = bench.truth.normed(self._truth_TD)
        for dtype, probe in bench.probes.items():
            calls: list[Call] = []
            ours_TD = probe.normed(probe.entering(-1, self._truth_TD), calls.append)
            errors = compare(ours_TD, right_TD, None if dtype == torch.float32 else bench.own.normed(self._truth_TD), dtype)
            if dtype == torch.float32 and calls:
                errors = _explained(errors, calls[-1], right_TD)
            yield NormEvidence(layer=None, part="norm", dtype=dtype_name(dtype), tokens=len(ids), errors=errors)

    def logits(self) -> Iterator[ModelEvidence]:
        """Evidence for the logits, after the last layer."""
        bench = self._bench
        for (dtype, forced), run in self._runs.items():
            tally = Logits(dtype)
            for start in range(0, len(self._ids), ROWS):
                rows = slice(start, start + ROWS)
                others = () if dtype == torch.float32 else (bench.own.head(self._own_TD[rows]), bench.own.head(self._null_TD[rows]))
                tally.add(bench.probes[dtype].head(run.stream[rows]), bench.truth.head(self._truth_TD[rows]), *others)
            yield tally.evidence(forced)

    def tensors(self) -> dict[str, Tensor]:
        """All that is needed to go on from here."""
        found = {"truth": self._truth_TD, "own": self._own_TD, "null": self._null_TD} | ({} if self._handed is None else {"handed": self._handed})
        for (dtype, forced), run in self._runs.items():
            name = f"{dtype_name(dtype)} {forced}"
            found |= {f"stream {name}": run.stream} | {f"reads {name} {layer}": reads for layer, reads in run.reads.items() if reads is not None}
        return found

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Go on from what `tensors` gave."""
        device = self._bench.probes[torch.float32].device
        found = {name: tensor.to(device) for name, tensor in tensors.items()}
        self._truth_TD, self._own_TD, self._null_TD = found["truth"], found["own"], found["null"]
        self._handed = found.get("handed")
        for (dtype, forced), run in self._runs.items():
            name = f"{dtype_name(dtype)} {forced}"
            run.stream = found[f"stream {name}"]
            prefix = f"reads {name} "
            run.reads = {int(key.removeprefix(prefix)): tensor for key, tensor in found.items() if key.startswith(prefix)}


def _explained(errors: Errors, last: Call, right_TD: Tensor) -> Errors:
    """With the change of the last call that gives what the reference gives, where one does."""
    limit = EXPLAINED * errors.ours * float(right_TD.norm())
    near = (name for name, other_TD in alternatives(last) if other_TD.shape == right_TD.shape and float((other_TD - right_TD).norm()) <= limit)
    name = next(near, "") if errors.ours > FAULT else ""
    return replace(errors, pattern=f"right with {name}") if name else errors


def _depth(bench: Bench, dtype: torch.dtype, layer: int, ours: Tensor, right: Tensor, peer: Tensor | None, null: Tensor | None) -> DepthEvidence:
    errors = compare(bench.probes[dtype].leaving(layer, ours, right), right, peer, dtype, null)
    return DepthEvidence(layer=layer, part="stream", dtype=dtype_name(dtype), errors=errors)


def _chooses(bench: Bench) -> bool:
    return any(site.op in READERS for site in bench.probes[torch.float32].mapped.sites)


class _Run:
    """Our stream on its way through all layers, with choices forced or its own."""

    def __init__(self, probe: Probe, ids: Sequence[int], way: bool) -> None:
        self._probe, self._ids, self._forced = probe, ids, way
        self.stream = torch.empty(0)
        self.reads: dict[int | None, Tensor | None] = {}  # layer → what it chose to read

    def embed(self) -> None:
        """Begin."""
        self.stream = self._probe.embed(self._ids)

    def go(self, layers: range, choices: Choices) -> None:
        """Through some more layers."""
        for index in layers:
            source = self._probe.release.model.layers[index].index_source
            reads, experts = (choices.reads_TK, choices.experts_TK) if self._forced else (self.reads.get(source), None)
            result = self._probe.layer(index, self.stream, experts, [len(self._ids)], ids=self._ids, reads_TK=reads)
            self.stream, self.reads[index] = result.hidden_TD, result.reads_TK


class Logits:
    """Logits of some tokens at a time, against the truth and next to the reference in our type."""

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype, self._tally = dtype, Tally(dtype)
        self._sums = [0.0] * 4  # tokens with the same best next token and divergence, ours and the reference's
        self._tokens = self._astray = 0

    def add(self, ours_TW: Tensor, right_TW: Tensor, peer_TW: Tensor | None = None, null_TW: Tensor | None = None) -> None:
        """[some tokens, W]."""
        self._tally.add(ours_TW, right_TW, peer_TW, null_TW)
        self._tokens += len(right_TW)
        other_TW = right_TW if peer_TW is None else peer_TW
        self._astray += _astray(ours_TW, right_TW, other_TW)
        found = [measure(logits_TW, right_TW) for measure in (_agreement, _divergence) for logits_TW in (ours_TW, other_TW)]
        self._sums = [total + value for total, value in zip(self._sums, found, strict=True)]

    def evidence(self, forced: bool) -> ModelEvidence:
        """Of all tokens."""
        top1, reference_top1, divergence, reference_divergence = (total / self._tokens for total in self._sums)
        return ModelEvidence(
            layer=None, part="logits", dtype=dtype_name(self._dtype), forced=forced, tokens=self._tokens, errors=self._tally.errors(),
            top1=top1, reference_top1=reference_top1, astray=self._astray, divergence=divergence, reference_divergence=reference_divergence,
        )  # fmt: skip


def _agreement(a_TW: Tensor, b_TW: Tensor) -> int:
    """Tokens with the same best next token."""
    return int((a_TW.argmax(-1) == b_TW.argmax(-1)).sum())


def _astray(ours_TW: Tensor, right_TW: Tensor, other_TW: Tensor) -> int:
    """Tokens with another best next token, of which the reference is sure by what its own logits in our type, `other_TW`, are off."""
    best_T1, chosen_T1 = right_TW.argmax(-1, keepdim=True), ours_TW.argmax(-1, keepdim=True)
    lead_T = (right_TW.gather(1, best_T1) - right_TW.gather(1, chosen_T1))[:, 0]
    return int((lead_T > SURE * (other_TW - right_TW).square().mean(-1).sqrt()).sum())


def _divergence(a_TW: Tensor, right_TW: Tensor) -> float:
    """Kullback-Leibler divergence of `a` from the truth, nats, summed over tokens."""
    total = 0.0
    for a_W, right_W in zip(a_TW, right_TW, strict=True):
        right_W = right_W.double().log_softmax(-1)
        total += float((right_W.exp() * (right_W - a_W.double().log_softmax(-1))).sum())
    return total
