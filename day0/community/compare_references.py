"""Two references of one layer next to each other: our own definition, and the class of transformers or what stands in its place."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from day0.community.parts import keys
from day0.community.reads import ascending, differing
from day0.community.reference import LayerRun
from day0.community.selection import rule, same
from day0.community.statistics import compare
from day0.engine.probe import LayerResult
from day0.spec.evidence import ReferencesEvidence

Results = dict[int, LayerResult]  # our layer → what it made of the tokens
Leaving = Callable[[int, Tensor, Tensor], Tensor]  # (our layer, stream after it, that of the reference) → the stream in the reference's shape


def compare_references(
    truth: LayerRun, reads_TK: Tensor | None, own: Results, target: Results, leaving: Leaving
) -> Iterator[ReferencesEvidence]:  # fmt: skip
    """Evidence for each layer of ours that stands for one of the reference's; all ran in float32, in one step, with `truth`'s choices.

    `own` is what our definition made of them, `target` what runs here; `reads_TK` is what `truth` read.
    """
    for half, (index, defined) in enumerate(own.items()):
        runs = target[index]
        for part, mine in defined.parts.items():
            key = next((key for key in keys(part, half, len(defined.parts)) if key in truth.parts), None)
            if key is not None and truth.parts[key].shape == mine.shape:
                yield _numbers(index, part, truth.parts[key], mine, runs.parts[part])
        if truth.router is not None and defined.scores_TE is not None and runs.scores_TE is not None:
            yield _experts(index, truth, defined, runs)
        if truth.reads is not None and reads_TK is not None and defined.reads_TK is not None and runs.reads_TK is not None:
            yield _choices(index, reads_TK, defined.reads_TK, runs.reads_TK)
    last = max(own)
    streams = (leaving(last, results[last].hidden_TD, truth.hidden_TD) for results in (own, target))
    yield _numbers(last, "residual", truth.hidden_TD, *streams)


def _numbers(index: int, part: str, truth: Tensor, own: Tensor, target: Tensor) -> ReferencesEvidence:
    """Relative errors of what a part adds to the stream."""
    pairs = ((own, truth), (target, truth), (target, own))
    apart, to_reference, to_own = (compare(one, right, None, torch.float32).ours for one, right in pairs)
    return ReferencesEvidence(layer=index, part=part, choices=0, apart=apart, to_reference=to_reference, to_own=to_own)


def _experts(index: int, truth: LayerRun, own: LayerResult, target: LayerResult) -> ReferencesEvidence:
    """Share of tokens whose experts differ from the reference's rule on one's own scores; and, of the target, from our definition's."""
    assert truth.router is not None
    wrong = []
    for one in (own, target):
        assert one.scores_TE is not None and one.experts_TK is not None
        wrong.append(_share(~same(one.experts_TK, rule(truth.router, one.scores_TE.float()))))
    assert own.experts_TK is not None and target.experts_TK is not None
    moved_T = (own.experts_TK.sort(-1).values != target.experts_TK.sort(-1).values).any(-1)
    return ReferencesEvidence(
        layer=index, part="router", choices=len(moved_T), apart=wrong[0], to_reference=wrong[1], to_own=_share(moved_T)
    )  # fmt: skip


def _choices(index: int, truth_TK: Tensor, own_TK: Tensor, target_TK: Tensor) -> ReferencesEvidence:
    """Shares of the choices of the second that the first lacks."""
    own_TK, target_TK = ascending(own_TK), ascending(target_TK)
    pairs = ((own_TK, truth_TK), (target_TK, truth_TK), (target_TK, own_TK))
    counted = [differing(one, right) for one, right in pairs]
    apart, to_reference, to_own = (lacking / max(chosen, 1) for lacking, chosen, _ in counted)
    return ReferencesEvidence(
        layer=index, part="reads", choices=counted[0][1], apart=apart, to_reference=to_reference, to_own=to_own
    )  # fmt: skip


def _share(wrong_T: Tensor) -> float:
    return float(wrong_T.float().mean())
