"""Kimi delta attention in chunks of 16 tokens: what transformers' reference computes, about ten times faster on a processor.

The recurrence S ← S · diag(exp g) + k ⊗ β (v - kᵀ S) (Kimi Linear, arXiv 2510.26692) is solved inside a chunk as one triangular system.
Decay is at most exp(5) a token, so that products centred in a chunk of 16 stay within float32.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

CHUNK = 16
FAR = 80.0  # largest exponent


def chunked_delta(
    query: Tensor, key: Tensor, value: Tensor, g: Tensor, beta: Tensor, initial_state: Tensor | None = None,
    output_final_state: bool = False, use_qk_l2norm_in_kernel: bool = False, **_: Any,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    """[B, S, H, D] each, beta [B, S, H] → (the same of the values, last state [B, H, D, V] when it is wanted)."""
    tokens, kind = query.shape[1], query.dtype
    q, k, v, decay, b = (x.transpose(1, 2).float() for x in (query, key, value, g, beta))
    if use_qk_l2norm_in_kernel:
        q, k = (x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6) for x in (q, k))
    q = q * q.shape[-1] ** -0.5
    more = -tokens % CHUNK
    q, k, v, decay = (pad(x, (0, 0, 0, more)).unflatten(2, (-1, CHUNK)) for x in (q, k, v, decay))
    b, decay = pad(b, (0, more)).unflatten(2, (-1, CHUNK))[..., None], decay.cumsum(-2)
    middle, last = decay[..., CHUNK // 2 : CHUNK // 2 + 1, :], decay[..., -1:, :]
    k_far = k * (middle - decay).clamp(max=FAR).exp()
    near = (decay - middle).clamp(max=FAR).exp()
    among = (q * near @ k_far.mT).tril()
    system = (k * near * b @ k_far.mT).tril(-1) + torch.eye(CHUNK, device=q.device)
    right = torch.cat([v * b, k * b * decay.exp()], -1)
    new, old = torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True).split([v.shape[-1], k.shape[-1]], -1)
    q_old, k_last, shrink = q * decay.exp(), k * (last - decay).exp(), last.exp().mT
    state = q.new_zeros(*q.shape[:2], k.shape[-1], v.shape[-1]) if initial_state is None else initial_state
    outputs = []
    for i in range(q.shape[2]):
        written = new[:, :, i] - old[:, :, i] @ state
        outputs.append(q_old[:, :, i] @ state + among[:, :, i] @ written)
        state = state * shrink[:, :, i] + k_last[:, :, i].mT @ written
    out = torch.stack(outputs, 2).flatten(2, 3)[:, :, :tokens].transpose(1, 2)
    return out.to(kind), state if output_final_state else None
