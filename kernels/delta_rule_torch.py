"""The gated delta rule in chunks: inside a chunk a triangular system gives what every key replaces, between chunks one matrix a head is
carried (arXiv 2412.06464, §3.3; with decays by channel arXiv 2510.26692, §4). Single tokens of several sequences go in one batch."""

from typing import Any

from day0.spec.lazy import torch
from day0.spec.ops import Impl, Site

CHUNK = {True: 16, False: 64}  # tokens, where decays are by channel or not
EPS = 1e-6


def launch(
    q_THQ: Any, k_THQ: Any, v_TNV: Any, decay_TNC: Any, beta_TN: Any, state_BNQV: Any, queries: tuple[int, ...]
) -> tuple[Any, Any]:
    q, k = _unit(q_THQ) * q_THQ.shape[-1] ** -0.5, _unit(k_THQ)
    share = v_TNV.shape[1] // q.shape[1]
    if share > 1:
        q, k = q.repeat_interleave(share, 1), k.repeat_interleave(share, 1)
    v, decay, beta, state = v_TNV.float(), decay_TNC.float(), beta_TN.float(), state_BNQV.float()
    if max(queries) == 1:
        o, state = _tokens(q, k, v, decay, beta, state)
        return o.to(v_TNV.dtype), state
    outputs, states, start = [], [], 0
    for b, count in enumerate(queries):
        rows = slice(start, start + count)
        o, last = _sequence(*(x[rows].transpose(0, 1) for x in (q, k, v, decay)), beta[rows].T, state[b])
        outputs.append(o)
        states.append(last)
        start += count
    return torch.cat(outputs, 1).transpose(0, 1).to(v_TNV.dtype), torch.stack(states)


def _unit(x: Any) -> Any:
    x = x.float()
    return x * (x.square().sum(-1, keepdim=True) + EPS).rsqrt()


def _tokens(q: Any, k: Any, v: Any, decay: Any, beta: Any, state: Any) -> tuple[Any, Any]:
    """One token of each sequence; [B, N, …]."""
    state = state * decay.exp()[..., None]
    recalled = (k[..., None, :] @ state)[..., 0, :]
    state = torch.addcmul(state, k[..., None], (beta[..., None] * (v - recalled))[..., None, :])
    return (q[..., None, :] @ state)[..., 0, :], state


def _sequence(q: Any, k: Any, v: Any, decay: Any, beta: Any, state: Any) -> tuple[Any, Any]:
    """All tokens of one sequence; [N, T, …]."""
    size = CHUNK[decay.shape[-1] > 1]
    outputs = []
    for parts in zip(*(x.split(size, 1) for x in (q, k, v, decay, beta)), strict=True):
        o, state = _chunk(*parts, state)
        outputs.append(o)
    return torch.cat(outputs, 1), state


def _chunk(q: Any, k: Any, v: Any, decay: Any, beta: Any, state: Any) -> tuple[Any, Any]:
    """One chunk; [N, C, …]. `kept[i, j]` is what stays at i of what came at j."""
    total = decay.cumsum(1)
    later = torch.ones(k.shape[1], k.shape[1], dtype=torch.bool, device=k.device).triu(1)
    kept = (total[:, :, None] - total[:, None]).masked_fill_(later[:, :, None], float("-inf")).exp_()
    if kept.shape[-1] == 1:
        keys, scores = (k @ k.transpose(1, 2)) * kept[..., 0], (q @ k.transpose(1, 2)) * kept[..., 0]
    else:
        keys = torch.einsum("nik,njk,nijk->nij", k, k, kept)
        scores = torch.einsum("nik,njk,nijk->nij", q, k, kept)
    grown = total.exp()
    system = (beta[..., None] * keys).tril(-1)
    change = beta[..., None] * (v - (k * grown) @ state)
    change = torch.linalg.solve_triangular(system, change, upper=False, unitriangular=True)
    o = (q * grown) @ state + scores @ change
    rest = (total[:, -1:] - total).exp()
    return o, state * grown[:, -1, :, None] + (k * rest).transpose(1, 2) @ change


def refuses(site: Site, machine: Any) -> str | None:
    return "computes in float32" if site.dtype == "float64" else None


IMPL = Impl(op="delta_rule", provider="torch", fn=launch, refuses=refuses, status="composite")
