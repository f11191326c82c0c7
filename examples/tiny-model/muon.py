"""Muon (Keller Jordan, 2024) for matrices and stacks of them: momentum, orthogonalised by a Newton-Schulz iteration.

torch.optim.Muon takes matrices alone; the experts of transformers' classes are stacks.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
LEFT_TO_ADAM = ("embed", "lm_head", "gate.weight", "conv", "_hc.", "indexer", "patch_embed")  # tables, routers, mixes, and what is fitted apart


class Muon(torch.optim.Optimizer):
    """Weights shrink by `decay` times the rate; an update of more rows than columns is scaled by the root of their ratio."""

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float, momentum: float = 0.95, decay: float = 0.01) -> None:
        super().__init__(parameters, dict(lr=lr, momentum=momentum, decay=decay))

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    kept = self.state[parameter].setdefault("momentum", torch.zeros_like(parameter))
                    kept.mul_(group["momentum"]).add_(parameter.grad)
                    update = orthogonal(parameter.grad.add(kept, alpha=group["momentum"]))
                    scale = max(1.0, parameter.size(-2) / parameter.size(-1)) ** 0.5
                    parameter.mul_(1 - group["lr"] * group["decay"]).add_(update, alpha=-group["lr"] * scale)


def orthogonal(matrix: Tensor, steps: int = 5) -> Tensor:
    """Close to the nearest matrix whose singular values are all one; over the last two axes."""
    a, b, c = COEFFICIENTS
    x = matrix / (matrix.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    tall = x.size(-2) > x.size(-1)
    x = x.mT if tall else x
    for _ in range(steps):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x.mT if tall else x


def optimisers(model: nn.Module, muon: float, adam: float) -> list[torch.optim.Optimizer]:
    """Muon for matrices and stacks, AdamW for the rest, at these learning rates."""
    matrices, others = [], []
    for name, parameter in model.named_parameters():
        matrix = parameter.ndim in (2, 3) and not any(word in name for word in LEFT_TO_ADAM)
        (matrices if matrix else others).append(parameter)
    return [Muon(matrices, lr=muon), torch.optim.AdamW(others, lr=adam, betas=(0.9, 0.95), weight_decay=0.01)]
