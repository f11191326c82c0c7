"""Linear maps of groups of inputs in one launch, over plain weights or codes of 8 bits with a scale a block."""

from __future__ import annotations

from typing import Any

from day0.kernels.tiles.matrix import HALVES, matrix
from day0.kernels.tiles.product import launch_product
from day0.spec.build import Build, unlaunchable
from day0.spec.lazy import torch
from day0.spec.ops import Impl, Site

FORMATS = ("plain", "fp8_block")


def launch(x_TGI: Any, weight_OI: Any) -> Any:
    x_TGI = x_TGI if x_TGI.stride(-1) == 1 else x_TGI.contiguous()
    y_TO = torch.empty(x_TGI.shape[0], weight_OI.shape[0], dtype=x_TGI.dtype, device=x_TGI.device)
    launch_product(x_TGI, matrix(weight_OI), None, y_TO)
    return y_TO


def refuses(site: Site, machine: Any) -> str | None:
    return unlaunchable(site, machine, FORMATS, HALVES)


IMPL = Impl(op="grouped_linear", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = tuple(Build(sizes={"T": T, "G": 8, "O": 1024, "I": 4096}, format=form) for form in FORMATS for T in (16, 4096))
