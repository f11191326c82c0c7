"""Gated activation by torch's elementwise operators, in the compute type."""

from typing import Any

from day0.spec.lazy import functional
from day0.spec.ops import Impl, Site

FUNCTIONS = ("silu", "gelu", "gelu_pytorch_tanh")


def launch(gate_TF: Any, up_TF: Any, activation: str) -> Any:
    if activation == "silu":
        return functional.silu(gate_TF).mul_(up_TF)
    return functional.gelu(gate_TF, approximate="tanh" if activation.endswith("tanh") else "none").mul_(up_TF)


def refuses(site: Site, machine: Any) -> str | None:
    activation = site.options.get("activation")
    return None if activation in FUNCTIONS else f"no activation {activation!r}"


IMPL = Impl(op="gated_activation", provider="torch", fn=launch, refuses=refuses, status="composite")
