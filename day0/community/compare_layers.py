"""Layers: each on the reference's hidden states, with the reference's choice of experts, part by part."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from day0.community.bench import Bench
from day0.community.reference import LayerRun, Reference
from day0.community.selection import Selection, rule
from day0.community.statistics import compare, dtype_name
from day0.engine.probe import LayerResult
from day0.spec.evidence import Evidence, LayerEvidence, RotaryEvidence, SelectionEvidence
from day0.spec.ops import Phase
from day0.spec.rope import Rope

Table = Callable[[Rope, Tensor], tuple[Tensor, Tensor]]  # (rope, positions [T]) → cosines and sines [T, R]
SINGLE = 8  # tokens that the decode run feeds one by one


def compare_layer(bench: Bench, index: int, stream_TD: Tensor) -> tuple[list[Evidence], Tensor]:
    """Evidence for one layer fed with `stream_TD` (float32), and the stream that the reference lets out."""
    evidence: list[Evidence] = []
    with bench.truth.loaded(index):
        truths = {dtype: bench.truth.layer(index, stream_TD.to(dtype)) for dtype in bench.probes}
    for dtype, probe in bench.probes.items():
        truth, entering_TD = truths[dtype], stream_TD.to(dtype)
        forced = truth.selection.experts_TK if truth.selection else None
        peer = None if dtype == torch.float32 else bench.own.layer(index, entering_TD, 0, forced, truth.indices_TK)
        for phase, chunks in runs(len(entering_TD)).items():
            ours = probe.layer(index, entering_TD, forced, chunks, indices_TK=truth.indices_TK)
            evidence += _parts(index, phase, dtype, ours, truth, peer)
            if truth.selection:
                evidence.append(_selection(index, phase, dtype, ours, truth, peer))
    return evidence, truths[torch.float32].hidden_TD


def runs(tokens: int) -> dict[Phase, list[int]]:
    """How the tokens are fed: at once; and in two chunks, then one by one."""
    single = min(SINGLE, tokens // 2)
    half = (tokens - single) // 2
    chunks = [size for size in (half, tokens - single - half) if size]
    return {"prefill": [tokens], "decode": chunks + [1] * single}


def _parts(index: int, phase: Phase, dtype: torch.dtype, ours: LayerResult, truth: LayerRun, peer: LayerRun | None) -> Iterator[Evidence]:
    """Evidence for what each part adds to the stream, and for the stream."""
    both: list[str] = [name for name in ("mixer", "ffn") if name in truth.parts and name in ours.parts]
    triples = [(name, ours.parts[name], truth.parts[name], peer.parts[name] if peer else None) for name in both]
    for part, mine, right, other in [*triples, ("residual", ours.hidden_TD, truth.hidden_TD, peer.hidden_TD if peer else None)]:
        errors = compare(mine, right, other, dtype)
        yield LayerEvidence(layer=index, part=part, phase=phase, dtype=dtype_name(dtype), tokens=len(right), errors=errors)


def _selection(
    index: int, phase: Phase, dtype: torch.dtype, ours: LayerResult, truth: LayerRun, peer: LayerRun | None
) -> SelectionEvidence:
    """Our router's choice against the reference's rule on our own scores; what differs from the reference's choice is only counted."""
    assert truth.selection is not None and truth.router is not None
    assert ours.scores_TE is not None and ours.experts_TK is not None and ours.weights_TK is not None
    by_rule = rule(truth.router, ours.scores_TE.float())
    broken_T = ~_same(ours.experts_TK, by_rule)
    forced = rule(truth.router, ours.scores_TE.float(), ours.experts_TK)
    weights = (ours.weights_TK - forced.weights_TK).abs().max() / forced.weights_TK.abs().max()
    flipped_T = ~_same(ours.experts_TK, truth.selection)
    near_T = _near(by_rule, truth.selection)
    peer_TE = peer.selection.logits_TE if peer and peer.selection else None
    scores = compare(ours.scores_TE, truth.selection.logits_TE, peer_TE, dtype)
    return SelectionEvidence(
        layer=index, part="router", phase=phase, dtype=dtype_name(dtype), tokens=len(broken_T), wrong=int(broken_T.sum()),
        first=int(broken_T.int().argmax()) if broken_T.any() else -1, weights=float(weights), scores=scores,
        flips=int(flipped_T.sum()), explained=int((flipped_T & near_T).sum()),
    )  # fmt: skip


def _same(experts_TK: Tensor, right: Selection) -> Tensor:
    """Whether each token's experts are those of `right`, or others of exactly the same rank."""
    ranked_TE = right.ranked_TE.float()
    mine_TK = ranked_TE.gather(-1, experts_TK).sort(-1).values
    best_TK = ranked_TE.gather(-1, right.experts_TK).sort(-1).values
    distinct_T = (experts_TK.sort(-1).values.diff(dim=-1) != 0).all(-1)
    return (mine_TK == best_TK).all(-1) & distinct_T


def _near(ours: Selection, reference: Selection) -> Tensor:
    """Whether the gap between the last expert chosen and the first left out is within twice the difference of the ranked values."""
    k = reference.experts_TK.shape[-1]
    ordered_TE = reference.ranked_TE.float().sort(-1, descending=True).values
    gap_T = ordered_TE[:, k - 1] - ordered_TE[:, k] if ordered_TE.shape[1] > k else torch.full_like(ordered_TE[:, 0], torch.inf)
    apart_TE = (ours.ranked_TE.float() - reference.ranked_TE.float()).abs()
    return gap_T.nan_to_num(nan=torch.inf) <= 2 * apart_TE.nan_to_num(nan=0.0, posinf=0.0).amax(-1)


def compare_rotary(truth: Reference, layer: int, rope: Rope, table: Table, context: int) -> RotaryEvidence | None:
    """Our cosines and sines against the class's own, from position 0 to the end of the context; None when it has no single table."""
    positions_T = torch.unique(torch.cat([torch.arange(min(context, 64)), torch.linspace(0, context - 1, 256).long()]))
    theirs = truth.rotary(positions_T)
    if theirs is None:
        return None
    half = rope.dim // 2  # tables of half the width and tables that repeat it both occur
    pairs = zip(table(rope, positions_T), theirs, strict=True)
    apart_T = torch.stack([(ours[:, :half] - right[:, :half].float()).abs().amax(-1).cpu() for ours, right in pairs]).amax(0)
    worst = int((apart_T / (1 + positions_T)).argmax())  # an angle in float32 is off in proportion to the position
    return RotaryEvidence(layer=layer, part="rotary", tokens=context, deviation=float(apart_T[worst]), position=int(positions_T[worst]))
