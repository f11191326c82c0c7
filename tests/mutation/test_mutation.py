"""The validator judged: it finds every planted fault where it is, and nothing where there is none."""

import pytest

pytest.importorskip("transformers")
pytest.importorskip("PIL")

from day0.checks.d0702_layer_ratio import LIMIT
from tests.mutation import engine_faults, faults
from tests.mutation.nulls import NULLS, worst
from tests.mutation.towers import TOWERS

CATALOGUE = {
    "formulas": faults.FORMULAS, "positions and attention": faults.POSITIONS, "choices": faults.CHOICES, "streams": faults.STREAMS,
    "formats and loading": engine_faults.FORMATS, "kernels": engine_faults.KERNELS, "state": engine_faults.STATE, "towers": TOWERS,
}  # fmt: skip
FAULTS = {name: planted for group in CATALOGUE.values() for name, planted in group.items()}
QUICK = set(TOWERS) | {  # one of each kind; the others are behind `slow`
    "eps of a layer's norms", "logits scaled", "experts' gate and up exchanged", "window one token too wide",
    "context not stretched", "groups ignored", "index shared from another layer", "routed experts never added",
    "scales along the other axis", "high half of a byte first, mxfp4", "an expert lost its last columns",
    "an expert lost its last columns, seen from the layer", "halves of the activation exchanged", "truncation instead of rounding",
    "second best expert skipped", "router in bfloat16", "positions one too large after the first chunk", "stale entry of keys",
    "memory of a state space lost", "residual block begins one layer late",
    "experts in the opposite order, mixtral", "products in five blocks, qwen3", "other kernels, llama",
}  # fmt: skip


def marked(names: object) -> list[object]:
    return [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in names]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", marked(FAULTS))
def test_a_fault_is_found_where_it_is(name: str) -> None:
    report = FAULTS[name].run()
    assert report.verdict == "fail"
    assert not FAULTS[name].missed(report), FAULTS[name].missed(report)


@pytest.mark.parametrize("name", marked(NULLS))
def test_what_is_no_fault_raises_no_alarm(name: str) -> None:
    report = NULLS[name].run()
    assert report.verdict == "pass", report.first_divergence
    assert 1.3 * worst(report) < LIMIT


def test_the_catalogue_is_broad() -> None:
    assert len(FAULTS) >= 40 and len({planted.model.partition("-")[0] for planted in FAULTS.values()}) >= 8
    assert len(NULLS) >= 20 and QUICK - FAULTS.keys() - NULLS.keys() == set()
