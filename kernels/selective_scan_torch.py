"""The state-space recurrence in chunks (arXiv 2405.21060, §6): products within a chunk, one matrix a head between chunks."""

from typing import Any

from day0.spec.lazy import functional, torch
from day0.spec.ops import Impl, Site

CHUNK = 64  # tokens


def launch(
    x_THV: Any, step_TH: Any, b_TGQ: Any, c_TGQ: Any, rate_log_H: Any, bias_H: Any, skip_H: Any, least: float, state_BHQV: Any,
    queries: tuple[int, ...],
) -> tuple[Any, Any]:  # fmt: skip
    x, b, c, state = x_THV.float(), b_TGQ.float(), c_TGQ.float(), state_BHQV.float()
    d_TH = functional.softplus(step_TH.float() + bias_H).clamp(least)
    decay_TH = -rate_log_H.float().exp() * d_TH
    b, c = (y.repeat_interleave(x.shape[1] // b.shape[1], 1) for y in (b, c))
    v = x * d_TH[..., None]
    skipped = x * skip_H.float()[:, None]
    if max(queries) == 1:
        state = torch.addcmul(state * decay_TH.exp()[..., None, None], b[..., None], v[..., None, :])
        return ((c[..., None, :] @ state)[..., 0, :] + skipped).to(x_THV.dtype), state
    outputs, states, start = [], [], 0
    for sequence, count in enumerate(queries):
        rows, last = slice(start, start + count), state[sequence]
        for parts in zip(*(y[rows].transpose(0, 1).split(CHUNK, 1) for y in (c, b, v, decay_TH[..., None])), strict=True):
            y, last = _chunk(*parts, last)
            outputs.append(y)
        states.append(last)
        start += count
    return (torch.cat(outputs, 1).transpose(0, 1) + skipped).to(x_THV.dtype), torch.stack(states)


def _chunk(c: Any, b: Any, v: Any, decay: Any, state: Any) -> tuple[Any, Any]:
    """[H, C, …]; token i keeps exp(total_i - total_j) of what token j brought."""
    total = decay.cumsum(1)
    later = torch.ones(b.shape[1], b.shape[1], dtype=torch.bool, device=b.device).triu(1)
    kept = (total - total.transpose(1, 2)).masked_fill(later, float("-inf")).exp()
    y = (c * total.exp()) @ state + ((c @ b.transpose(1, 2)) * kept) @ v
    rest = (total[:, -1:] - total).exp()
    return y, state * total[:, -1:].exp() + (b * rest).transpose(1, 2) @ v


def refuses(site: Site, machine: Any) -> str | None:
    return "computes in float32" if site.dtype == "float64" else None


IMPL = Impl(op="selective_scan", provider="torch", fn=launch, refuses=refuses, status="composite")
