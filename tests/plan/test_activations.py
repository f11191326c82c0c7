"""What a plan says each pool takes is what the engine takes, to the byte; activations by what torch's allocator says."""

import random

import pytest
import torch

from day0.blocks import mla
from day0.engine import rehearsal
from day0.engine.batch import Engine
from day0.engine.release import Release
from day0.spec.request import Request, Sampling
from day0.stages.plan_memory import plan_memory
from tests.engine.opened import CPU, inspected, load, planned, processor, run
from tests.plan.allocator import peak
from tests.zoo import checkpoint

CONTEXT, LAST = 200, 4  # tokens of a sequence; tokens that the last prompt is answered with
NAMES = (
    "llama", "deepseek_v3", "deepseek_v32", "gpt_oss", "minimax_m2", "kimi_linear", "qwen3_next", "glm5_next", "nemotron_h", "mimo_v2_flash",
    "deepseek_v4", "minimax_m3",
)  # fmt: skip


def prompts(batch: int, chunk: int) -> list[int]:
    """Lengths such that all sequences are near the full context when the last prompt is read; whole chunks where they are longer than one."""
    lengths, steps = [], LAST
    for _ in range(batch):
        room = CONTEXT - steps
        lengths.append(room // chunk * chunk if chunk < room else room)
        steps += -(-lengths[-1] // chunk)
    return lengths[::-1]


def scatter(engine: Engine) -> None:
    """Hand out pages that lie apart, as after requests of many lengths."""
    pages, order = engine.state._pages, random.Random(0)

    def allocate(count: int) -> list[int] | None:
        free = [page for page in range(pages.count) if pages._free[page]]
        if len(free) < count:
            return None
        found = order.sample(free, count)
        for page in found:
            pages._users[page], pages._free[page] = 1, 0
        return found

    pages.allocate = allocate  # type: ignore[method-assign]


def most(engine: Engine, batch: int, chunk: int) -> int:
    """Bytes that the largest steps of a run hold at once."""
    generator = torch.Generator().manual_seed(batch)
    run(engine, Request(id="first", tokens=(1, 2, 3), max_new=3))
    if batch > 1:
        scatter(engine)
    for index, count in enumerate(prompts(batch, chunk)):
        tokens = torch.randint(engine.forward.model.vocab, (count,), generator=generator).tolist()
        sampling = Sampling(temperature=1.0, top_k=50, top_p=0.9, seed=index)
        engine.add(Request(id=str(index), tokens=tuple(tokens), max_new=CONTEXT - count, sampling=sampling))
    last = str(batch - 1)
    while chunk < CONTEXT and (last not in engine._active or engine._active[last].pending > chunk):
        engine.step()

    def rest() -> None:
        for _ in range(2 * batch):
            engine.step()

    return peak(rest)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("batch", "chunk"), [
    (1, 64), (8, 16), (8, 256), *(pytest.param(*size, marks=pytest.mark.slow) for size in ((1, 16), (1, 256), (8, 64))),
])  # fmt: skip
def test_activations_are_what_was_planned(name: str, batch: int, chunk: int) -> None:
    folder = checkpoint(name)
    plan, mapped = planned(folder, load(batch=batch, chunk=chunk, context=CONTEXT), rehearsed=True)
    found = most(Engine.start(Release.open(folder), plan, mapped, None, CPU), batch, chunk)
    assert plan.per_card[0].activations == pytest.approx(found, rel=0.1)


def test_of_latents_a_few_heads_are_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is held of a long context is theirs; heads of wide models, here of a narrow one."""
    folder, asked = checkpoint("deepseek_v3"), load(batch=1, chunk=64, context=CONTEXT)
    whole, mapped = planned(folder, asked, rehearsed=True)
    rehearsal.ladder.cache_clear()
    monkeypatch.setattr(mla, "WIDTH", 80)
    monkeypatch.setattr(rehearsal.reading().module("day0.blocks.mla"), "WIDTH", 80)
    plan = plan_memory(inspected(folder), processor(), asked)
    rehearsal.ladder.cache_clear()
    found = most(Engine.start(Release.open(folder), plan, mapped, None, CPU), 1, 64)
    assert plan.per_card[0].activations == pytest.approx(found, rel=0.1)
    assert found < 0.8 * whole.per_card[0].activations
