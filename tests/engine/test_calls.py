"""The table of torch operators that maps are made with, against a run of today's code."""

import pytest

from day0.engine.calls import recorded, signature, uses
from day0.parts.gqa import Gqa
from day0.spec.activation import Activation
from tests.torch_operators import record
from tests.zoo import checkpoint

AGAIN = "write it anew: python -m tests.torch_operators templates/torch_operators.yaml"


@pytest.mark.parametrize(("name", "dtype"), [("deepseek_v3-fp8", "bfloat16"), ("qwen3_moe", "float32"), ("gpt_oss", "bfloat16")])
def test_the_table_holds_what_runs(name: str, dtype: str) -> None:
    seen = record(checkpoint(name), dtype)
    assert {caller[0] for caller in seen} >= {"forward", "linear_torch", "rms_norm_torch", "part:gqa" if "deepseek" not in name else "part:mla"}
    for caller, asked in seen.items():
        known = uses(*caller)
        assert known, f"{caller} was never recorded; {AGAIN}"
        assert (asked.operators - known.operators, asked.types - known.types) == (frozenset(), frozenset()), f"{caller}; {AGAIN}"


def test_a_call_that_was_never_seen_asks_for_all_that_ever_was() -> None:
    found, calls = uses("route", "prefill float32 rule(none such)"), recorded()["route"]
    assert found and not found.exact
    assert found.operators == frozenset().union(*(one.operators for one in calls.values()))
    assert uses("none_such", "prefill float32") is None


def test_what_tells_calls_apart() -> None:
    assert signature(Activation(kind="silu")) == "silu"
    assert signature(Activation(kind="silu", limit=7.0, gated=False)) == "silu,gated,limit"
    plain = {"heads": 4, "kv_heads": 2, "qk_dim": 8, "v_dim": 8, "scale": 1.0, "rope": None}
    assert signature(Gqa(**plain)) == signature(Gqa(**plain | {"heads": 8}))  # type: ignore[arg-type]
    assert signature(Gqa(**plain, sinks=True, window=128)) == "window,sinks"  # type: ignore[arg-type]
