"""Rotary embedding in few torch calls: pairs as halves, or as complex numbers where they are neighbours."""

from typing import Any

from day0.spec.lazy import torch
from day0.spec.ops import Impl, Site


def launch(x_THQ: Any, turn: Any, interleaved: bool = False) -> Any:
    R = turn.cos_TR.shape[-1]
    turned = x_THQ[..., : 2 * R].float()
    if interleaved:
        turn_TR = torch.complex(turn.cos_TR, turn.sin_TR)[:, None]
        turned = torch.view_as_real(torch.view_as_complex(turned.unflatten(-1, (R, 2)).contiguous()) * turn_TR).flatten(-2)
    else:
        cos, sin = turn.halves
        turned = torch.addcmul(turned * cos, turned.roll(R, -1), sin)
    turned = turned.to(x_THQ.dtype)
    return turned if x_THQ.shape[-1] == 2 * R else torch.cat((turned, x_THQ[..., 2 * R :]), -1)


def refuses(site: Site, machine: Any) -> str | None:
    return "computes in float32" if site.dtype == "float64" else None


IMPL = Impl(op="rotary", provider="torch", fn=launch, refuses=refuses, status="composite")
