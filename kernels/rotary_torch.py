"""Rotary embedding in few torch calls: pairs as halves, or as complex numbers where they are neighbours."""

from typing import Any

from day0.spec.lazy import torch
from day0.spec.ops import Impl, Site


def launch(x_THQ: Any, turn: Any, interleaved: bool = False) -> Any:
    A = turn.cos_TA.shape[-1]
    turned = x_THQ[..., : 2 * A].float()
    if interleaved:
        turn_TA = torch.complex(turn.cos_TA, turn.sin_TA)[:, None]
        turned = torch.view_as_real(torch.view_as_complex(turned.unflatten(-1, (A, 2)).contiguous()) * turn_TA).flatten(-2)
    else:
        cos, sin = turn.halves
        rolled = turned.roll(A, -1)
        turned = (turned * cos if turned.dtype == x_THQ.dtype else turned.mul_(cos)).addcmul_(rolled, sin)
    turned = turned.to(x_THQ.dtype)
    return turned if x_THQ.shape[-1] == 2 * A else torch.cat((turned, x_THQ[..., 2 * A :]), -1)


def refuses(site: Site, machine: Any) -> str | None:
    return "computes in float32" if site.dtype == "float64" else None


IMPL = Impl(op="rotary", provider="torch", fn=launch, refuses=refuses, status="composite")
