"""Queries into latent space: one matrix product a head, read where the weight lies."""

from __future__ import annotations

from typing import Any

from day0.kernels.tiles.heads import by_head
from day0.spec.build import Build, unlaunchable
from day0.spec.ops import Impl, Site


def launch(q_THQ: Any, kv_b_OC: Any, v_dim: int) -> Any:
    _, H, Q = q_THQ.shape
    return by_head(q_THQ, kv_b_OC.unflatten(0, (H, Q + v_dim))[:, :Q])


def refuses(site: Site, machine: Any) -> str | None:
    return unlaunchable(site, machine)


IMPL = Impl(op="absorb_query", provider="triton", fn=launch, refuses=refuses, status="compiled")
BUILDS = tuple(Build(sizes={"T": T, "H": 128, "Q": 128, "V": 128, "C": 512}) for T in (1, 64))
