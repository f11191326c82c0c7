"""Attended latents into the heads' value space: one matrix product a head, read where the weight lies."""

from __future__ import annotations

from typing import Any

from day0.kernels.tiles.heads import by_head
from day0.spec.build import Build, unlaunchable
from day0.spec.ops import Impl, Site


def launch(o_THC: Any, kv_b_OC: Any, v_dim: int) -> Any:
    return by_head(o_THC, kv_b_OC.unflatten(0, (o_THC.shape[1], -1))[:, -v_dim:].transpose(1, 2))


def refuses(site: Site, machine: Any) -> str | None:
    return unlaunchable(site, machine)


IMPL = Impl(op="expand_value", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = tuple(Build(sizes={"T": T, "H": 128, "Q": 128, "V": 128, "C": 512}) for T in (1, 64))
