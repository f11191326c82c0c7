"""Linear map over weights that stay packed: codes become numbers on the way to the matrix product, and are never written out.

Several weights with one input are a launch each, into columns of one result.
"""

from __future__ import annotations

from typing import Any

from day0.kernels.tiles.matrix import HALVES, PACKED, matrix, unreadable
from day0.kernels.tiles.product import launch_product
from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import torch
from day0.spec.ops import Impl, Site


def launch(x_TI: Any, weight_OI: Any, bias_O: Any = None) -> Any:
    members = several(weight_OI)
    biases = several(bias_O) if bias_O is not None else (None,) * len(members)
    x_TI = x_TI if x_TI.stride(-1) == 1 else x_TI.contiguous()
    y_TO = torch.empty(x_TI.shape[0], sum(one.shape[0] for one in members), dtype=x_TI.dtype, device=x_TI.device)
    start = 0
    for index, member in enumerate(members):
        rows = slice(start, start + member.shape[0])
        bias = biases[index] if len(biases) == len(members) else biases[0][rows]
        launch_product(x_TI[:, None], matrix(member), bias, y_TO[:, rows])
        start = rows.stop
    return y_TO


def several(weights: Any) -> tuple[Any, ...]:
    """Members of a group, or the one weight."""
    return weights if isinstance(weights, tuple) else getattr(weights, "members", (weights,))


def refuses(site: Site, machine: Any) -> str | None:
    if site.format == "plain":
        return "torch's own product reads plain weights"
    return unlaunchable(site, machine, PACKED, HALVES) or unreadable(site)


IMPL = Impl(op="linear", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = (
    *(Build(sizes={"T": 16, "O": (4096,), "I": 7168}, format=form) for form in PACKED),
    *(Build(sizes={"T": 16, "O": (4096,), "I": 7168}, format=form, dtype="float16") for form in ("gptq", "awq")),
    *(Build(sizes={"T": T, "O": (4096,), "I": 7168}, format=form) for form in ("fp8_block", "mxfp4", "int4") for T in (64, 4096)),
)
