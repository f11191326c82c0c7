"""Weights, state and workspace that the engine allocates are what was planned, to the byte, however prompts are cut."""

import pytest

from day0.engine.batch import Engine
from day0.engine.release import Release
from tests.engine.opened import CPU, load, planned
from tests.zoo import checkpoint

NAMES = (
    "llama", "deepseek_v3", "deepseek_v32", "gpt_oss", "minimax_m2", "kimi_linear", "qwen3_next", "glm5_next", "nemotron_h", "mimo_v2_flash",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize("chunk", [16, 64, 256])
def test_pools_are_what_was_planned(name: str, batch: int, chunk: int) -> None:
    folder = checkpoint(name)
    plan, mapped = planned(folder, load(batch=batch, chunk=chunk, context=200))
    (card,), account = plan.per_card, Engine.start(Release.open(folder), plan, mapped, None, CPU).account()
    for pool in ("weights", "state", "workspace"):
        assert getattr(card, pool) == account[pool], pool
