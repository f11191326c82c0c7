"""A run that checks itself: sound weights pass however they come; one fault on their way, and nothing is answered."""

from typing import Any

import pytest
from torch import Tensor

from day0.engine import weights as reading
from day0.engine.release import Release
from day0.engine.weights import Streamed
from day0.spec.errors import Refused
from day0.spec.reports.run import SelfCheck
from day0.spec.request import Request
from day0.stages.opening import Opened
from day0.stages.opening import planned as opening
from day0.stages.self_check import TOKENS, self_check
from tests.engine.opened import load, planned, run
from tests.validate.planted import wrong_kernel
from tests.zoo import checkpoint

PACKED = ("qwen3_moe-fp8", "qwen3_moe-int4", "qwen3_moe-nvfp4", "deepseek_v3-mxfp4")
PROMPT = [(7 * i) % 97 + 3 for i in range(TOKENS + 3)]


def opened(name: str, weights: str = "streamed", dtype: str = "float32") -> Opened:
    return opening(*planned(checkpoint(name), load(weights=weights, dtype=dtype))).start()


def checked(name: str, weights: str = "streamed", dtype: str = "float32") -> SelfCheck:
    return self_check(opened(name, weights, dtype), PROMPT, lambda *_: None)


@pytest.mark.parametrize("weights", ["resident", "streamed"])
@pytest.mark.parametrize(("name", "dtype"), [*((name, "bfloat16") for name in PACKED), ("gpt_oss", "float32"), ("deepseek_v32", "float32")])
def test_a_sound_run_passes_and_says_what_was_compared(name: str, weights: str, dtype: str) -> None:
    found = checked(name, weights, dtype)
    layers = len(Release.open(checkpoint(name)).model.layers)
    assert (found.tokens, found.layers, found.parts) == (TOKENS, layers, 6 * layers)
    assert found.weights > 8 * layers and 0 < found.error < (1e-5 if dtype == "float32" else 0.03)


def test_the_run_answers_as_without_it() -> None:
    request = Request(id="0", tokens=tuple(PROMPT), max_new=6)
    plain, after = opened("qwen3_moe-fp8"), opened("qwen3_moe-fp8")
    self_check(after, PROMPT, lambda *_: None)
    assert run(after.engine, request)["0"].tokens == run(plain.engine, request)["0"].tokens


def neighbours(layer: int, bank: str = "gate", expert: int = 2) -> Any:
    """What the streaming reader brings of one layer has, for one expert, the scales of the next."""
    read = Streamed._read

    def faulty(self: Streamed, index: int, slot: Tensor) -> Any:
        found = read(self, index, slot)
        if index == layer:
            scale = getattr(found.ffn.experts, bank).parts["scale"]
            scale[expert] = scale[expert + 1].clone()
        return found

    return faulty


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", PACKED)
def test_an_expert_with_the_scales_of_its_neighbour_stops_a_streamed_run(monkeypatch: pytest.MonkeyPatch, name: str, dtype: str) -> None:
    """vllm #38718: with offload garbage, without it right."""
    monkeypatch.setattr(Streamed, "_read", neighbours(1))
    with pytest.raises(Refused, match=r"self-check: layer 1 ffn\.experts\.gate: differs by .* at expert 2.*weights streamed"):
        checked(name, dtype=dtype)
    assert checked(name, "resident", dtype).layers


@pytest.mark.parametrize("name", PACKED)
def test_the_layer_alone_shows_it_where_weights_are_not_compared(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """What a kernel reads may be wrong where what is held is right."""
    monkeypatch.setattr(Streamed, "_read", neighbours(1))
    monkeypatch.setattr("day0.community.compare_run.compare_held", lambda *_: iter(()))
    with pytest.raises(Refused, match=r"layer 1 ffn: .* error"):
        checked(name, dtype="bfloat16")


def test_a_slot_that_the_next_layer_is_read_into_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both slots are one: what a layer computes with is overwritten while it runs."""
    begun, own = Streamed.__init__, Streamed.layers

    def one_slot(self: Streamed, *arguments: Any) -> None:
        begun(self, *arguments)
        self._ahead[1].result()
        self._slots = self._slots[:1]
        self._turn = 0
        self._ahead = self._submit(0)

    def layers(self: Streamed) -> Any:
        for found in own(self):
            self._ahead[1].result()
            yield found

    monkeypatch.setattr(Streamed, "__init__", one_slot)
    monkeypatch.setattr(Streamed, "layers", layers)
    with pytest.raises(Refused, match="layer 0"):
        checked("qwen3_moe-int4")


def test_a_kernel_that_misreads_what_is_held_is_named_by_its_part(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong_kernel(monkeypatch, "experts", 1.1)
    with pytest.raises(Refused, match=r"self-check: layer 1 ffn: .*weights resident"):
        checked("qwen3_moe-int4", "resident", "bfloat16")


@pytest.mark.parametrize(("part", "method"), [("embed", "table"), ("head", "head")])
@pytest.mark.parametrize("kind", ["Resident", "Streamed"])
def test_rows_of_the_ends_are_compared(monkeypatch: pytest.MonkeyPatch, part: str, method: str, kind: str) -> None:
    own = getattr(getattr(reading, kind), method)

    def table(self: Any, tokens_T: Tensor) -> Any:
        rows, places_T = own(self, tokens_T)
        return rows * 1.01, places_T

    def head(self: Any) -> Any:
        return (piece * 1.01 for piece in own(self))

    monkeypatch.setattr(getattr(reading, kind), method, table if part == "embed" else head)
    with pytest.raises(Refused, match=f"self-check: {part}: differs by 0.01"):
        checked("qwen3_moe-fp8", kind.lower())
