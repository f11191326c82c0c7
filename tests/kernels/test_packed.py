"""Weights that kernels read packed: as releases vary them, and where they are larger than 2^31 elements."""

from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor

from day0.engine.packed import Group
from day0.spec.registry import kernels, ops
from tests.kernels import calls, interpret, packed

VARIANTS: dict[str, tuple[str, int, int, dict[str, Any]]] = {
    "int4, groups of 32 with zeros": ("int4", 20, 101, {"block": (1, 32)}),
    "int4, a scale a row": ("int4", 20, 100, {"block": (1, 100)}),
    "int4, inputs in no order": ("int4", 20, 100, {"block": (1, 32), "scattered": True}),
    "gptq, inputs in no order": ("gptq", 24, 320, {"scattered": True}),
    "gptq, groups of 32": ("gptq", 24, 96, {"block": (1, 32)}),
    "awq, one group": ("awq", 24, 96, {"block": (1, 96)}),
    "fp8, blocks that no tile divides": ("fp8_block", 70, 200, {"block": (32, 48)}),
    "fp8, blocks smaller than a tile": ("fp8_block", 70, 200, {"block": (16, 32)}),
    "mxfp4, a ragged last group": ("mxfp4", 8, 60, {}),
    "nvfp4, a ragged last group": ("nvfp4", 8, 60, {}),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_linear_reads_every_variant(variant: str, interpreter: ProcessPoolExecutor) -> None:
    form, outputs, inputs, stored = VARIANTS[variant]
    assert interpreter.submit(linear, form, outputs, inputs, stored).result() is None


def linear(form: str, outputs: int, inputs: int, stored: dict[str, Any]) -> str | None:
    """What is wrong with a product of such a weight."""
    op = ops().get("linear")
    return wrong("linear", packed.at_rest(op, op.cases.at(T=5, O=outputs, I=inputs).make("bfloat16"), form, **stored))


@pytest.mark.parametrize("form", packed.BLOCKS)
def test_linear_reads_some_rows_of_a_weight(form: str, interpreter: ProcessPoolExecutor) -> None:
    assert interpreter.submit(some_rows, form).result() is None


def some_rows(form: str) -> str | None:
    """From the middle of a block on."""
    made = ops().get("linear").cases.at(T=5, O=160, I=256).make("bfloat16")
    return wrong("linear", made | {"weight_OI": packed.packed(form, made["weight_OI"]).rows(56, 152), "bias_O": None})


def wrong(name: str, made: dict[str, Any]) -> str | None:
    return interpret.wrong_with(kernels().get(f"{name}_triton"), ops().get(name), made, dict(made))


def test_several_weights_with_one_input(interpreter: ProcessPoolExecutor) -> None:
    assert interpreter.submit(grouped).result() == [None, None, None]


def grouped() -> list[str | None]:
    """With a bias each, with one bias for all, and with none."""
    made = ops().get("linear").cases.at(T=3, O=(48, 8, 16), I=64, bias=True).make("bfloat16")
    made["weight_OI"] = Group.of(tuple(packed.packed("fp8", one) for one in made["weight_OI"]))
    return [wrong("linear", made | {"bias_O": bias}) for bias in (made["bias_O"], torch.cat(made["bias_O"]), None)]


@pytest.mark.parametrize("form", ["fp8", "fp8_block", "mxfp8"])
def test_codes_with_inputs_before_outputs(form: str, interpreter: ProcessPoolExecutor) -> None:
    assert interpreter.submit(turned, form).result() is None


def turned(form: str) -> str | None:
    made = ops().get("linear").cases.at(T=3, O=72, I=160).make("bfloat16")
    weight = packed.packed(form, made["weight_OI"].mT.contiguous())
    return wrong("linear", made | {"weight_OI": replace(weight, shape=weight.shape[::-1], turned=True)})


def test_halves_of_bytes_are_not_turned() -> None:
    op = ops().get("linear")
    made = op.cases.at(T=3, O=72, I=160).make("bfloat16")
    site = replace(calls.site(op, made, "bfloat16", "decode"), format="mxfp4", options={"turned": True})
    assert "along the inputs" in str(kernels().get("linear_triton").refuses(site, calls.machine()))


@pytest.mark.parametrize("name", ["linear", "experts"])
def test_weights_larger_than_an_int32_can_address(name: str, tmp_path: Path, interpreter: ProcessPoolExecutor) -> None:
    """Rows (experts) lie so far apart that the last begins beyond 2^31 bytes. The interpreter raises where 32 bits overflow."""
    assert interpreter.submit(far, name, str(tmp_path / "sparse")).result() is None


def far(name: str, path: str) -> str | None:
    op = ops().get(name)
    if name == "linear":
        made, apart = op.cases.at(T=2, O=24, I=64).make("bfloat16"), 1 << 27
    else:
        made, apart = op.cases.at(T=4, D=32, F=16, K=2).make("bfloat16"), 1 << 28
    made = packed.at_rest(op, made, "mxfp4")
    weight = made[packed.WEIGHTS[name][-1]]
    made[packed.WEIGHTS[name][-1]] = replace(weight, parts=weight.parts | {"data": sparse(weight.parts["data"], apart, path)})
    return wrong(name, made)


def sparse(data: Tensor, apart: int, path: str) -> Tensor:
    """The same bytes with `apart` bytes from one entry of the first axis to the next, in a file of which little is on disk."""
    room = torch.from_file(path, shared=True, size=apart * len(data), dtype=torch.uint8)
    return room.as_strided(data.shape, (apart, *data.stride()[1:])).copy_(data)


@pytest.mark.parametrize("activation", range(9))
def test_experts_know_every_activation(activation: int, interpreter: ProcessPoolExecutor) -> None:
    assert interpreter.submit(activated, activation).result() is None


def activated(number: int) -> str | None:
    from day0.ops.gated_activation import ACTIVATIONS
    from day0.spec.activation import Activation

    ungated = (Activation(kind="gelu", gated=False), Activation(kind="gelu_tanh", gated=False))
    chosen = (*ACTIVATIONS, *ungated)[number]
    made = ops().get("experts").cases.at(T=3, D=32, F=16, K=1).make("bfloat16")
    return wrong("experts", made | {"activation": chosen, "gate_EFD": made["gate_EFD"] if chosen.gated else None})


def test_experts_without_tokens(interpreter: ProcessPoolExecutor) -> None:
    assert interpreter.submit(uneven).result() is None


def uneven() -> str | None:
    """All tokens choose the last expert."""
    made = ops().get("experts").cases.at(T=33, D=64, F=16, K=1).make("bfloat16")
    return wrong("experts", made | {"experts_TK": torch.full((33, 1), 8)})


@pytest.mark.parametrize(("D", "F"), [(300, 16), (32, 100)])
def test_long_steps_in_portions(D: int, F: int, interpreter: ProcessPoolExecutor) -> None:
    """Of columns, and of tokens where experts are wide."""
    assert interpreter.submit(portions, D, F).result() is None


def portions(D: int, F: int) -> str | None:
    from day0.kernels import experts_triton

    made = ops().get("experts").cases.at(T=9, D=D, F=F, K=3, variant="identities").make("bfloat16")
    with mock.patch.object(experts_triton, "FLOOR", 0):
        return wrong("experts", made)
