"""Published figures of memory, and the same models renamed and with other widths against a walk over their tensors."""

import copy
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from day0.engine.release import Located, Release
from day0.spec.dtype import size
from day0.spec.placement import Heads, Placement
from day0.spec.registry import families
from day0.spec.reports.plan_memory import Offload
from tests.plan import truth

ROWS = [row for row in truth.rows() if "figure" in row]


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_published_figures(row: dict[str, Any]) -> None:
    answer = truth.answer(row)
    assert answer.holds, f"{row['value']} {row['unit']} published ({row['source']}), {answer.value} planned"


def test_every_row_has_an_answer_or_a_reason() -> None:
    assert all(("figure" in row) != ("open" in row) for row in truth.rows())
    assert len({row["id"] for row in truth.rows()}) == len(truth.rows())


WIDTHS: dict[str, dict[str, Any]] = {  # model → what is changed: other numbers of layers, wider experts, other heads
    "deepseek-v3": {"num_hidden_layers": 7, "moe_intermediate_size": 2560, "n_routed_experts": 320, "num_attention_heads": 64},
    "kimi-k3": {"text_config.moe_intermediate_size": 3584, "text_config.hidden_size": 6144},
    "gpt-oss-120b": {"num_hidden_layers": 6, "intermediate_size": 3584, "num_local_experts": 96},
    "minimax-m2": {"num_hidden_layers": 5, "intermediate_size": 1792, "num_key_value_heads": 4},
    "kimi-k2.5": {"text_config.num_hidden_layers": 6, "text_config.moe_intermediate_size": 2560},
    "llama-3.1-405b": {"num_hidden_layers": 9, "intermediate_size": 63744, "num_key_value_heads": 4},
    "qwen3-coder-480b": {"num_hidden_layers": 8, "moe_intermediate_size": 3072},
    "deepseek-v4-pro": {"num_hidden_layers": 11, "moe_intermediate_size": 3584, "compress_ratios": [4, 128, 0, 4, 4, 128, 4, 0, 4, 128, 4, 0]},
}


def renamed(model: str) -> Release:
    """The model under a name that nobody knows, with other widths."""
    config = copy.deepcopy(truth.models()[model])
    for key, value in WIDTHS[model].items():
        place, _, name = key.rpartition(".")
        (config[place] if place else config)[name] = value
    checkpoint = truth.opened(config).checkpoint
    family = families().get(truth.release(model).model.family)
    checkpoint.config.data["model_type"] = "unheard_of"
    return Release(checkpoint, family, family.read(checkpoint.config))


@pytest.mark.parametrize("model", WIDTHS)
@pytest.mark.parametrize("place", [Placement(), Placement(tp=4, ep=4), Placement(tp=2, dp=2, ep=4), Placement(tp=2, dp=2, pp=2), Placement(tp=8)])
def test_a_walk_over_the_tensors_agrees(model: str, place: Placement) -> None:
    """Every tensor of every card, rank by rank: nothing that the planner knows of a model by its name."""
    release = renamed(model)
    demand = truth.demand(model, release, "b300_sxmx64", engine="sglang", batch=4).placed(place)
    cards = [walk(release, place, stage, rank, demand.holdings.stages[stage]) for stage in range(place.pp) for rank in range(place.stage)]
    found = [demand.holdings.weights(stage) for stage in range(place.pp) for _ in range(place.stage)]
    assert cards == [weights["layers"] + weights["ends"] for weights in found]


def walk(release: Release, place: Placement, stage: int, rank: int, layers: Sequence[int]) -> int:
    """Bytes of one card."""
    total = 0
    for name, located in release.tensors.items():
        index = name.split(".")[1] if name.startswith("layers.") else None
        if index is not None and int(index) in layers:
            total += card(located, place, rank)
        elif index is None:
            first = located.spec.role == "embed"
            here = stage == 0 if first else stage == place.pp - 1
            total += card(located, place, rank) if here or (first and release.model.tied and stage == place.pp - 1) else 0
    return total


def card(located: Located, place: Placement, rank: int) -> int:
    """Bytes of one weight on one card: the runs of each axis that are there, and the blocks of scales that they touch."""
    spec, stored = located.spec, located.pieces[0][1]
    runs = [[range(length)] for length in spec.shape]
    tp, ep = rank % place.tp, rank % place.ep
    if spec.split in ("column", "row"):
        axis = 0 if spec.split == "column" else len(spec.shape) - 1
        runs[axis] = list(whole_heads(spec.heads, spec.shape[axis], place.tp, tp))
    elif spec.split == "vocab":
        rows = -(-spec.shape[0] // place.tp)
        runs[0] = [range(-(-rows // 64) * 64)]
    elif spec.split == "expert":
        each = spec.shape[0] // place.ep
        runs[0] = [range(ep * each, (ep + 1) * each)]
        if "F" in spec.axes:
            axis = spec.axes.index("F")
            share = spec.shape[axis] // place.expert_tp
            runs[axis] = [range(share)]
    if len(stored.kept) == 1:
        kind = {"compute": "BF16", "float32": stored.parts["data"].dtype, "integer": "I64"}[spec.precision]
        return size(kind, product(sum(map(len, each)) for each in runs))
    elements = product(sum(map(len, each)) for each in runs)
    data = stored.parts["data"]
    total = elements * data.bytes // product(stored.shape)
    blocks = (1,) * (len(runs) - len(stored.block)) + stored.block
    touched = [len({at // block for run in each for at in run}) for each, block in zip(runs, blocks, strict=True)]
    return total + size(stored.parts["scale"].dtype, product(touched))


def whole_heads(heads: tuple[Heads, ...], length: int, ranks: int, rank: int) -> Iterator[range]:
    """Where a rank's heads lie along an axis; a head that several ranks need is on each of them."""
    if not heads:
        yield range(rank * (length // ranks), (rank + 1) * (length // ranks))
    start = 0
    for kind in heads:
        mine = [head for head in range(kind.count) if head * ranks // kind.count == rank] or [rank * kind.count // ranks]
        yield from (range(start + head * kind.width, start + (head + 1) * kind.width) for head in mine)
        start += kind.count * kind.width


def product(numbers: Any) -> int:
    total = 1
    for number in numbers:
        total *= number
    return total


def test_the_worked_example_is_what_the_planner_says() -> None:
    """Each row of the table in docs/plan-memory.md."""
    text = (Path(__file__).parents[2] / "docs" / "plan-memory.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.count("|") == 10]
    for machine, *cells in rows[2:]:
        name, *tp = machine.split(" --tp ")
        ask = {"tp": int(tp[0])} if tp else {}
        found = truth.reported("kimi-k3", name, context=32768, batch=8, **ask)
        card, place = found.per_card[0], found.placement
        cut = f"tp {place.tp} · ep {place.ep} · pp {place.pp} · dp {place.dp}"
        figures = [f"{size / truth.GIB:.1f}" for size in (card.weights, card.state, card.free)]
        assert cells == [found.verdict, str(found.cards), cut, *figures, str(found.capacity.max_context), str(found.capacity.max_batch)]
    assert len(rows) == 7


def test_where_no_expert_may_stay_the_context_that_works_is_named() -> None:
    """Kimi K3 on one card, all of its experts elsewhere: to the page."""

    def offloaded(context: int) -> Offload:
        found = truth.reported("kimi-k3", "h200", context=context, batch=8, host_memory=1 << 40).offload
        assert found is not None
        return found

    whole = offloaded(65536)
    named = int(re.fullmatch(r".*they would do for --context (\d+)", whole.reason)[1])  # type: ignore[index]
    assert not whole.feasible and named % 16 == 0
    assert offloaded(named).feasible and not offloaded(named + 16).feasible
