"""Plans: they add up, they agree with the files, they grow the way memory does, and what they advise works."""

import gc
import re
from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from day0.engine.batch import Engine
from day0.engine.demand import Demand
from day0.engine.release import Release
from day0.spec.errors import Day0Error
from day0.spec.machine import Card, Machine
from day0.spec.reports.inspect import InspectReport
from day0.spec.reports.plan_memory import PlanMemoryReport
from day0.spec.workload import Workload, token_count
from day0.stages.inspect import inspect
from day0.stages.machines import find_machine
from day0.stages.map_ops import map_ops
from day0.stages.plan_memory import complete, plan_memory
from tests.plans import quick_plan
from tests.zoo import checkpoint

MODELS = ("llama", "llama_tied", "qwen2", "qwen3_moe", "mixtral", "olmoe", "deepseek_v3", "deepseek_v3-fp8", "qwen3_moe-fp8")
GIB = 1 << 30


@cache
def inspected(name: str) -> InspectReport:
    return inspect(checkpoint(name))


@cache
def release(name: str) -> Release:
    return Release.open(checkpoint(name))


def machine(memory: int) -> Machine:
    return Machine(name="test", backend="cpu", card=Card(name="test", memory=memory))


def plan(name: str, memory: int = 64 * GIB, **workload: object) -> PlanMemoryReport:
    return plan_memory(inspected(name), machine(memory), Workload(**workload))  # type: ignore[arg-type]


def demand(name: str, memory: int = 64 * GIB, **workload: object) -> Demand:
    return Demand(release(name), complete(Workload(**workload), release(name)), machine(memory))  # type: ignore[arg-type]


def codes(report: PlanMemoryReport) -> list[str]:
    return [reason.code for reason in report.reasons]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("weights", ["resident", "streamed"])
def test_a_plan_adds_up(name: str, weights: str) -> None:
    report = plan(name, weights=weights, context=100, batch=3)
    (card,) = report.per_card
    assert card.needed + card.free == report.machine.memory
    assert sum(pool.bytes for pool in report.weights) == card.weights
    assert sum(pool.bytes for pool in report.state.pools) == card.state
    assert report.state.pages == 3 * 7, "pages of 16 for 100 tokens, three times"
    assert card.state == report.state.pages * report.state.page_size * report.state.bytes_per_token
    if weights == "resident":
        assert sum(group.bytes for group in report.groups) == card.weights


@pytest.mark.parametrize("name", MODELS)
def test_weights_agree_with_the_files(name: str) -> None:
    """safetensors reads every tensor of the model; at rest a plain one takes 4 bytes an element in float32, a packed one what it has."""
    stored, elements, packed = 0, 0, 0
    layers = release(name).model.layers
    for path in checkpoint(name).glob("model*.safetensors"):
        with safe_open(path, "pt") as file:
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        for key, tensor in tensors.items():
            index = re.search(r"layers\.(\d+)\.", key)
            if index and int(index[1]) >= len(layers):
                continue  # extra prediction layers
            stored += tensor.nbytes
            if tensor.element_size() == 1 or key.endswith("_scale_inv"):
                packed += tensor.nbytes
            else:
                elements += tensor.numel()
    report = plan(name, dtype="float32")
    assert sum(group.stored for group in report.groups) == stored
    slack = 64 * 3 * sum(group.tensors for group in report.groups)
    assert 0 <= report.per_card[0].weights - (4 * elements + packed) <= slack


@pytest.mark.parametrize("name", ["llama", "qwen3_moe", "mixtral"])
def test_state_agrees_with_the_cache_of_transformers(name: str) -> None:
    model = AutoModelForCausalLM.from_pretrained(checkpoint(name), dtype=torch.float32)
    held = model(torch.arange(7)[None], use_cache=True).past_key_values
    cached = sum(layer.keys.nbytes + layer.values.nbytes for layer in held.layers)
    assert cached == 7 * plan(name, dtype="float32").state.bytes_per_token


@pytest.mark.parametrize("name", ["llama", "llama_tied", "qwen3_moe", "deepseek_v3", "deepseek_v3-fp8", "qwen3_moe-fp8"])
@pytest.mark.parametrize(("weights", "dtype"), [
    ("resident", "bfloat16"), ("streamed", "float32"),
    *(pytest.param(*each, marks=pytest.mark.slow) for each in (("resident", "float32"), ("streamed", "bfloat16"))),
])  # fmt: skip
def test_the_engine_allocates_what_was_planned(name: str, weights: str, dtype: str) -> None:
    """To the byte: by the engine's own account, and by the storages that torch holds (lookup tables of the engine may come on top)."""
    report = quick_plan(inspected(name), machine(64 * GIB), Workload(weights=weights, dtype=dtype, context=200, batch=3))  # type: ignore[arg-type]
    mapped = map_ops(inspected(name), report, report.machine.machine())
    opened = release(name)
    gc.collect()
    gc.freeze()  # what is there before the engine is not looked at
    engine = Engine.start(opened, report, mapped, None, torch.device("cpu"))
    held, (card,) = engine.account(), report.per_card
    assert (held["weights"], held["state"], held["workspace"]) == (card.weights, card.state, card.workspace)
    found = sum(storages().values())
    gc.unfreeze()
    assert 0 <= found - (card.weights + card.state + card.workspace) <= 1 << 16
    assert engine.account() == held


def storages() -> dict[int, int]:
    """Address → bytes of the memory of every tensor that the collector knows."""
    tensors = [thing for thing in gc.get_objects() if issubclass(type(thing), torch.Tensor)]
    return {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}


def test_what_is_not_asked_is_chosen_and_said() -> None:
    report = plan("llama")
    assert (report.workload.context, report.workload.batch, report.workload.dtype) == (512, 8, "bfloat16")
    assert any("not given" in line for line in report.assumptions)
    assert plan("llama", context=32, batch=1).assumptions != report.assumptions


def test_it_is_the_same_twice() -> None:
    assert plan("deepseek_v3").to_dict() == plan("deepseek_v3").to_dict()


def test_a_shortage_is_a_plain_signed_number() -> None:
    needed = plan("llama").per_card[0].needed
    report = plan("llama", memory=needed - 1000)
    assert (report.per_card[0].free, report.verdict) == (-1000, "does not fit")
    assert (plan("llama", memory=needed).per_card[0].free, plan("llama", memory=needed).verdict) == (0, "fits")


def test_weights_beyond_the_card() -> None:
    """Five times a card of half the weights: the least number of cards is told, and streaming where that is enough."""
    whole = demand("llama").card()
    report = plan("llama", memory=GIB + whole.weights // 2)
    assert codes(report) == ["D0401"]
    assert report.cards == 2
    assert "at least 2" in report.reasons[0].hint


@pytest.mark.parametrize("name", ["llama", "deepseek_v3"])
def test_advice_on_state_works(name: str) -> None:
    asked = {"context": 250, "batch": 6}
    few = demand(name, **{**asked, "batch": 5}).card()
    report = plan(name, memory=few.needed, **asked)
    assert codes(report) == ["D0402"]
    context = re.search(r"--context (\d+)", report.reasons[0].hint)
    batch = re.search(r"--batch (\d+)", report.reasons[0].hint)
    assert context and batch
    for change in ({"context": int(context[1])}, {"batch": int(batch[1])}):
        assert plan(name, memory=few.needed, **{**asked, **change}).verdict == "fits"
    assert plan(name, memory=few.needed, **{**asked, "batch": int(batch[1]) + 1}).verdict == "does not fit"
    assert plan(name, memory=few.needed, **{**asked, "context": int(context[1]) + 16}).verdict == "does not fit"


def test_advice_on_state_names_a_chunk_that_leaves_room_for_it() -> None:
    asked = {"context": 250, "batch": 4}
    memory = demand("llama", chunk=1000, **asked).card().needed - 1
    (reason,) = plan("llama", memory=memory, chunk=1000, **asked).reasons
    chunk = re.search(r"--chunk (\d+)", reason.hint)
    assert reason.code == "D0402" and chunk
    assert plan("llama", memory=memory, chunk=int(chunk[1]), **asked).verdict == "fits"
    assert plan("llama", memory=memory, chunk=int(chunk[1]) + 1, **asked).verdict == "does not fit"


def test_a_step_that_has_room_is_named_where_the_whole_has_none() -> None:
    asked = {"context": 250, "batch": 1}
    card = demand("llama", chunk=16, **asked).card()
    (reason,) = plan("llama", memory=card.needed - card.state // 2, chunk=1000, **asked).reasons
    assert reason.code == "D0403" and re.match(r"a step of `--chunk \d+` has room; the whole needs at least \d+ such cards", reason.hint)


def test_advice_on_the_chunk_works() -> None:
    asked = {"context": 250, "batch": 4}
    memory = demand("llama", chunk=16, **asked).card().needed
    report = plan("llama", memory=memory, chunk=1000, **asked)
    (reason,) = report.reasons
    assert reason.code == "D0403"
    chunk = re.search(r"--chunk (\d+)", reason.hint)
    assert chunk
    assert plan("llama", memory=memory, chunk=int(chunk[1]), **asked).verdict == "fits"
    assert plan("llama", memory=memory, chunk=int(chunk[1]) + 1, **asked).verdict == "does not fit"


def test_advice_on_the_batch_works_where_no_chunk_does() -> None:
    asked = {"context": 250, "chunk": 16}
    memory = demand("llama", batch=4, **asked).card().needed
    (reason,) = plan("llama", memory=memory, batch=1000, **asked).reasons
    batch = re.search(r"--batch (\d+)", reason.hint)
    assert reason.code == "D0403" and batch
    assert plan("llama", memory=memory, batch=int(batch[1]), **asked).verdict == "fits"
    assert plan("llama", memory=memory, batch=int(batch[1]) + 1, **asked).verdict == "does not fit"


def test_a_context_beyond_the_release_is_told() -> None:
    released = plan("llama").model.context
    report = plan("llama", context=released + 1, batch=1)
    assert (report.verdict, codes(report)) == ("fits", ["D0404"])
    assert codes(plan("llama", context=released, batch=1)) == []


def test_a_machine_whose_memory_nobody_vouches_for() -> None:
    report = plan_memory(inspected("llama"), find_machine("ascend_910b"), Workload())
    assert any("unverified" in line for line in report.assumptions)
    assert report.machine.machine() == find_machine("ascend_910b")


def test_a_machine_without_memory() -> None:
    with pytest.raises(Day0Error, match="has no memory left"):
        plan("llama", memory=0)


def test_an_incomplete_checkpoint_is_not_planned(tmp_path: Path) -> None:
    source = checkpoint("llama")
    for path in source.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    sorted(tmp_path.glob("model*.safetensors"))[-1].unlink()
    with pytest.raises(Day0Error, match="not in the checkpoint"):
        plan_memory(inspect(tmp_path), machine(GIB), Workload())


PAGES = st.sampled_from([1, 16, 64])
WORKLOADS = {"context": st.integers(1, 5000), "batch": st.integers(1, 40), "chunk": st.integers(1, 2000), "page_size": PAGES}
NAMES = st.sampled_from(["llama", "deepseek_v3-fp8", "qwen3_moe"])


@settings(max_examples=40, deadline=None)
@given(NAMES, st.fixed_dictionaries(WORKLOADS), st.integers(GIB, GIB + (64 << 20)), st.integers(0, 64 << 20))
def test_more_memory_never_lowers_capacity(name: str, load: dict[str, int], memory: int, more: int) -> None:
    small, large = (demand(name, memory + extra, **load).capacity() for extra in (0, more))
    assert small.tokens <= large.tokens
    assert small.max_context <= large.max_context
    assert small.max_batch <= large.max_batch


@settings(max_examples=60, deadline=None)
@given(NAMES, st.fixed_dictionaries(WORKLOADS), st.sampled_from(["context", "batch", "chunk"]), st.integers(1, 999))
def test_asking_for_more_never_needs_less(name: str, load: dict[str, int], field: str, more: int) -> None:
    small, large = demand(name, **load).card(), demand(name, **{**load, field: load[field] + more}).card()
    for part in ("weights", "state", "activations", "workspace", "margin"):
        assert 0 <= getattr(small, part) <= getattr(large, part)
    assert small.free >= large.free


@settings(max_examples=30, deadline=None)
@given(NAMES, st.fixed_dictionaries(WORKLOADS), st.integers(GIB, GIB + (64 << 20)))
def test_capacity_is_the_border(name: str, load: dict[str, int], memory: int) -> None:
    planned = demand(name, memory, **load)
    far, page = planned.capacity(), load["page_size"]
    for change, field, step in (({"batch": 1}, "context", page), ({}, "batch", 1)):
        edge = far.max_context if field == "context" else far.max_batch
        assert edge == 0 or planned.fits(**{**change, field: edge})
        assert not planned.fits(**{**change, field: edge + step})
    assert far.tokens == 0 or planned.card(far.tokens // page).free >= 0
    assert planned.card(far.tokens // page + 1).free < 0


@pytest.mark.parametrize(("text", "count"), [("4096", 4096), ("128k", 131072), ("1m", 1048576), ("2 K", 2048)])
def test_numbers_of_tokens(text: str, count: int) -> None:
    assert token_count(text) == count


@pytest.mark.parametrize("text", ["", "0", "-1", "4.5k", "k", "1g", "9" * 40])
def test_what_is_no_number_of_tokens(text: str) -> None:
    with pytest.raises(Day0Error, match="not a number of tokens"):
        token_count(text)


@pytest.mark.parametrize("name", ["qwen3_moe-fp8", "qwen3_moe-mxfp4"])
def test_released_bytes_of_experts_and_their_scales_are_those_of_the_files(name: str) -> None:
    stored: dict[bool, int] = {False: 0, True: 0}
    for file in checkpoint(name).glob("model*.safetensors"):
        for tensor, value in load_file(file).items():
            if ".experts." in tensor:
                stored["scale" in tensor] += value.nbytes
    (group,) = [group for group in plan(name).groups if group.role == "expert"]
    assert stored[True] and (group.scales_stored, group.stored) == (stored[True], stored[True] + stored[False])
