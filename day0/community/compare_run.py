"""The weights that a run reads, and what its layers make of them, next to the same layers on weights that were read and decoded another way.

The run's weights come through whatever brings them: held, or streamed into a slot while another layer runs; its kernels are those of the map.
Beside them stands each layer once more, by the operators' references, on weights of `again`, with the run's choices forced: in float32, and in
the run's type, so that errors are judged as those of layers are.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from day0.community.again import again, rows
from day0.community.compare_held import compare_held, deviation
from day0.community.compare_layers import runs
from day0.community.statistics import compare
from day0.engine.definition import Given, by_reference
from day0.engine.footprint import HEAD_ROWS
from day0.engine.probe import LayerResult
from day0.engine.release import Release
from day0.engine.weights import Weights
from day0.spec.evidence import Evidence, HeldEvidence, LayerEvidence
from day0.spec.lazy import torch_dtype
from day0.spec.ops import Phase
from day0.spec.progress import Progress
from day0.spec.reports.map_ops import MapOpsReport


def compare_run(
    release: Release, mapped: MapOpsReport, dtype: str, weights: Weights, ids: Sequence[int], progress: Progress
) -> Iterator[Evidence]:  # fmt: skip
    """Evidence for the ends and, one after the other, for every layer, on the stream that the run's own layers make of the tokens."""
    held: list[object] = [None]  # the layer that is looked at, as the run has it
    beside: list[object] = [None]  # the same, read again
    runner = Given(release, mapped, dtype, lambda _index: held[0])
    right = {kind: Given(release, by_reference(mapped), kind, lambda _index: beside[0]) for kind in dict.fromkeys(("float32", dtype))}
    yield from _embedding(release, weights, ids, runner.dtype, runner.device)
    stream_TD = runner.embed(ids)
    count = len(release.model.layers)
    for index, layer in enumerate(weights.layers()):
        progress("self-check", index, count)
        held[0] = layer
        results = _both(runner, index, stream_TD, ids)
        first = results["prefill"]
        yield from compare_held(release, index, layer, None if first.experts_TK is None else set(first.experts_TK.unique().tolist()))
        made = {}
        for kind, one in right.items():
            beside[0] = again(release, index, one.dtype, one.device)
            made[kind] = one.layer(index, stream_TD.to(one.dtype), first.experts_TK, [len(ids)], ids=ids, reads_TK=first.reads_TK)
            beside[0] = None
        yield from _parts(index, dtype, results, made["float32"], made[dtype])
        stream_TD = first.hidden_TD
    yield from _head(release, weights, runner.dtype)
    progress("self-check", count, count)


def _both(runner: Given, index: int, stream_TD: Tensor, ids: Sequence[int]) -> dict[Phase, LayerResult]:
    """In one step; and in chunks and single tokens, with the choices of the one step."""
    steps = runs(len(ids))
    first = runner.layer(index, stream_TD, None, steps["prefill"], ids=ids)
    second = runner.layer(index, stream_TD, first.experts_TK, steps["decode"], ids=ids, reads_TK=first.reads_TK)
    return {"prefill": first, "decode": second}


def _parts(index: int, dtype: str, results: dict[Phase, LayerResult], truth: LayerResult, peer: LayerResult) -> Iterator[LayerEvidence]:
    """What each part adds, and the stream after the layer."""
    kind = torch_dtype(dtype)
    for phase, result in results.items():
        ours, right, other = ({**one.parts, "residual": one.hidden_TD} for one in (result, truth, peer))
        for part, mine in ours.items():
            errors = compare(mine, right[part], None if kind == torch.float32 else other[part], kind)
            yield LayerEvidence(layer=index, part=part, phase=phase, dtype=dtype, tokens=len(mine), errors=errors)


def _embedding(release: Release, weights: Weights, ids: Sequence[int], dtype: torch.dtype, device: torch.device) -> Iterator[HeldEvidence]:
    """Rows of the table for the tokens."""
    located = release.ends()["embed"]
    table, rows_T = weights.table(torch.tensor(ids, device=device))
    found = [rows(release, located, token, 1, dtype) for token in ids]
    right = [row for row in found if row is not None]
    if right:
        yield HeldEvidence(layer=None, part="embed", name="embed", **deviation(table[rows_T], torch.cat(right)))


def _head(release: Release, weights: Weights, dtype: torch.dtype) -> Iterator[HeldEvidence]:
    """All of its rows, some at a time."""
    located, start = release.ends()["embed" if release.model.tied else "head"], 0
    for piece in weights.head():
        for some in piece.split(HEAD_ROWS) if isinstance(piece, Tensor) else ():
            right = rows(release, located, start, len(some), dtype)
            if right is not None:
                yield HeldEvidence(layer=None, part="head", name="head", **deviation(some, right))
            start += len(some)
