"""One descent: the optimisers of a model, their rates over the steps, and a line every so often on how it goes."""

import math
import time
from collections.abc import Iterator, Sequence

import torch
from torch import nn

WARM_UP, LAST = 50, 0.05  # steps; share of the rate at the end
EVERY = 20  # steps between lines


class Descent:
    """Iterate over the steps: add up gradients, then go `down`."""

    def __init__(self, model: nn.Module, optimisers: Sequence[torch.optim.Optimizer], steps: int) -> None:
        self.model, self.optimisers, self.steps = model, optimisers, steps
        self.full = [optimiser.param_groups[0]["lr"] for optimiser in optimisers]

    def __iter__(self) -> Iterator[int]:
        start = time.perf_counter()
        for step in range(self.steps):
            self.step, self.seconds = step, (time.perf_counter() - start) / max(1, step)
            yield step

    def down(self) -> None:
        """One step along the gradients, whose norm is held to 1."""
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimiser, lr in zip(self.optimisers, self.full, strict=True):
            optimiser.param_groups[0]["lr"] = lr * rate(self.step, self.steps)
            optimiser.step()
        self.model.zero_grad(set_to_none=True)

    def say(self, text: str) -> None:
        if self.step % EVERY == 0 or self.step == self.steps - 1:
            print(f"step {self.step:5} of {self.steps}   {text}   {self.seconds:.2f} s a step", flush=True)


def rate(step: int, steps: int) -> float:
    """Share of the full learning rate: warmed up, then down a cosine."""
    return min(1.0, (step + 1) / WARM_UP) * (LAST + (1 - LAST) * (1 + math.cos(math.pi * step / steps)) / 2)
