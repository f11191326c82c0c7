"""Lightning attention in blocks (arXiv 2401.04658, §3.2): products within a block, one matrix a head between blocks."""

from typing import Any

from day0.spec.lazy import torch
from day0.spec.ops import Impl, Site

BLOCK = 64  # tokens


def launch(
    q_THQ: Any, k_THQ: Any, v_THV: Any, slopes: tuple[float, ...], state_BHQV: Any, queries: tuple[int, ...]
) -> tuple[Any, Any]:
    q, k, v, state = q_THQ.float(), k_THQ.float(), v_THV.float(), state_BHQV.float()
    slope = torch.tensor(slopes, device=q.device)[:, None, None]
    if max(queries) == 1:
        state = torch.addcmul(state * (-slope).exp(), k[..., None], v[..., None, :])
        return (q[..., None, :] @ state)[..., 0, :].to(v_THV.dtype), state
    outputs, states, start = [], [], 0
    for b, count in enumerate(queries):
        rows, last = slice(start, start + count), state[b]
        for parts in zip(*(x[rows].transpose(0, 1).split(BLOCK, 1) for x in (q, k, v)), strict=True):
            o, last = _block(*parts, slope, last)
            outputs.append(o)
        states.append(last)
        start += count
    return torch.cat(outputs, 1).transpose(0, 1).to(v_THV.dtype), torch.stack(states)


def _block(q: Any, k: Any, v: Any, slope: Any, state: Any) -> tuple[Any, Any]:
    """[H, C, …]; token i keeps exp(-slope (i - j)) of what token j brought."""
    place = torch.arange(k.shape[1], device=k.device)
    distance = place[:, None] - place
    kept = (-slope * distance).masked_fill(distance < 0, float("-inf")).exp()
    grown = (-slope * (place[:, None] + 1)).exp()
    o = (q * grown) @ state + ((q @ k.transpose(1, 2)) * kept) @ v
    rest = (-slope * (place[-1] - place)[:, None]).exp()
    return o, state * grown[:, -1:] + (k * rest).transpose(1, 2) @ v


def refuses(site: Site, machine: Any) -> str | None:
    return "computes in float32" if site.dtype == "float64" else None


IMPL = Impl(op="lightning_attention", provider="torch", fn=launch, refuses=refuses, status="composite")
