"""Changes that are no faults: other orders, blocks, batches, types and threads. None of them may raise an alarm."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from day0.community import compare_layers
from day0.engine import probe
from day0.engine.bind import Function
from day0.spec.reports.validate import ValidateReport
from tests.mutation.fault import Patch, call
from tests.validate.planted import validate
from tests.zoo import checkpoint


@dataclass(frozen=True)
class Null:
    """One harmless variant of a healthy model."""

    model: str  #: checkpoint of tests/zoo
    patch: Patch | None = None  #: what is changed in our engine
    threads: int = 1  #: of torch
    wanted: dict[str, Any] = field(default_factory=lambda: dict(until="layers"))  #: arguments of `validate`

    def run(self) -> ValidateReport:
        """The report about the variant."""
        with pytest.MonkeyPatch.context() as monkeypatch, _threads(self.threads):
            if self.patch:
                self.patch(monkeypatch)
            return validate(monkeypatch, checkpoint(self.model), **self.wanted)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def worst(report: ValidateReport) -> float:
    """Largest ratio of a layer's part in the model's own type; 0 in float32 alone."""
    return max((row.errors.ratio for row in report.layer_errors if row.dtype != "float32"), default=0.0)


def reversed_experts(function: Function) -> Function:
    """Experts of a token are summed in the opposite order."""
    return lambda x, weights, experts, *rest, **named: function(x, weights.flip(-1), experts.flip(-1), *rest, **named)


def split(pieces: int) -> Callable[[Function], Function]:
    """The inner axis of a product in several blocks, whose sums are added in float32."""

    def change(function: Function) -> Function:
        def linear(x: torch.Tensor, weight: Any, bias: Any = None) -> torch.Tensor:
            joined = torch.cat(list(weight)) if not isinstance(weight, torch.Tensor) else weight
            blocks = zip(x.float().chunk(pieces, -1), joined.float().chunk(pieces, -1), strict=True)
            total = sum(one @ other.T for one, other in blocks)
            return (total if bias is None else total + (torch.cat(list(bias)) if not isinstance(bias, torch.Tensor) else bias)).to(x.dtype)

        return linear

    return change


def reversed_rows(function: Function) -> Function:
    """Tokens of a batch in the opposite order."""
    return lambda x, *rest, **named: function(x.flip(0), *rest, **named).flip(0)


def attribute(target: Any, name: str, value: Any) -> Patch:
    return lambda monkeypatch: monkeypatch.setattr(target, name, value)


def reference_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernel at all."""
    from day0.engine.bind import Bound
    from day0.spec.registry import ops

    monkeypatch.setattr(Bound, "_one", lambda self, op, kernel, decode: self._decoding(ops().get(op).reference))


SHORT, LONG = dict(until="layers", tokens=34), dict(until="layers", tokens=97)
NULLS = {
    "other kernels, llama": Null("llama", reference_operators),
    "other kernels, mixtral": Null("mixtral", reference_operators),
    "other kernels, deepseek_v3": Null("deepseek_v3", reference_operators),
    "other kernels, gpt_oss": Null("gpt_oss", reference_operators),
    "experts in the opposite order, mixtral": Null("mixtral", call("experts", reversed_experts)),
    "experts in the opposite order, qwen3_moe": Null("qwen3_moe", call("experts", reversed_experts)),
    "experts in the opposite order, minimax_m2": Null("minimax_m2", call("experts", reversed_experts)),
    "products in two blocks, llama": Null("llama", call("linear", split(2))),
    "products in five blocks, qwen3": Null("qwen3", call("linear", split(5))),
    "products in three blocks, olmoe": Null("olmoe", call("linear", split(3))),
    "products in four blocks, deepseek_v3": Null("deepseek_v3", call("linear", split(4))),
    "batch in the opposite order, llama": Null("llama", call("linear", reversed_rows)),
    "batch in the opposite order, gpt_oss": Null("gpt_oss", call("linear", reversed_rows)),
    "shorter sequence, mimo_v2_flash": Null("mimo_v2_flash", wanted=SHORT),
    "longer sequence, llama_yarn": Null("llama_yarn", wanted=LONG),
    "longer sequence, qwen3_moe": Null("qwen3_moe", wanted=LONG),
    "other chunks, deepseek_v3": Null("deepseek_v3", attribute(compare_layers, "SINGLE", 29)),
    "other chunks, kimi_linear": Null("kimi_linear", attribute(compare_layers, "SINGLE", 21), wanted=dict(until="layers", layers="0-3")),
    "pages of 48 tokens, qwen3_moe": Null("qwen3_moe", attribute(probe, "PAGE", 48)),
    "pages of 8 tokens, deepseek_v32": Null("deepseek_v32", attribute(probe, "PAGE", 8)),
    "two threads, mixtral": Null("mixtral", threads=2),
    "float16, llama": Null("llama", wanted=dict(until="layers", dtype="float16")),
    "drawn inputs, deepseek_v3": Null("deepseek_v3", wanted=dict(until="layers", inputs="random")),
}
