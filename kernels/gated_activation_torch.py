"""Gated activation by torch's elementwise operators, in the compute type."""

from typing import Any

from day0.spec.lazy import functional
from day0.spec.ops import Impl, Site

KINDS = ("silu", "gelu", "gelu_tanh")


def launch(gate_TF: Any, up_TF: Any, activation: Any) -> Any:
    if activation.kind == "silu":
        return functional.silu(gate_TF).mul_(up_TF)
    return functional.gelu(gate_TF, approximate="tanh" if activation.kind == "gelu_tanh" else "none").mul_(up_TF)


def refuses(site: Site, machine: Any) -> str | None:
    activation = site.options["activation"]
    if activation.kind not in KINDS or not activation.plain:
        return f"knows {', '.join(KINDS)} without clamps or offsets"
    return None


IMPL = Impl(op="gated_activation", provider="torch", fn=launch, refuses=refuses, status="composite")
