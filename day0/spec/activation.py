"""Activations of feed-forward networks, with what releases vary about them."""

from typing import Literal

from day0.spec.errors import Day0Error
from day0.spec.record import record

Kind = Literal["silu", "gelu", "gelu_tanh", "relu2", "situ"]
SPELLINGS: dict[str, Kind] = {
    "silu": "silu", "swish": "silu", "gelu": "gelu", "gelu_pytorch_tanh": "gelu_tanh", "gelu_new": "gelu_tanh", "relu2": "relu2",
    "situ": "situ",
}  # fmt: skip


@record
class Activation:
    """activation(gate) · (up + offset), or activation(up) where there is no gate."""

    kind: Kind  #: silu: x · sigmoid(alpha x); gelu; relu2: relu(x)²; situ: beta tanh(x / beta) · sigmoid(x) (Kimi K3)
    gated: bool = True  #: whether there is a gate
    limit: float | None = None  #: gate is clamped to at most this, up to ± this
    alpha: float = 1.0  #: of silu
    offset: float = 0.0  #: added to up
    beta: float = 4.0  #: of situ
    linear_beta: float = 25.0  #: of situ: up becomes linear_beta · tanh(up / linear_beta)
    limit_after: bool = False  #: the gate is clamped after the function instead of before it

    @property
    def plain(self) -> bool:
        """Nothing but the function and the product."""
        return self.gated and self.limit is None and self.alpha == 1 and self.offset == 0


def activation(name: str, *, gated: bool = True) -> Activation:
    """From the spelling of a configuration (`hidden_act`)."""
    if name not in SPELLINGS:
        raise Day0Error(f"activation {name!r} is not known", hint=f"known: {', '.join(SPELLINGS)}")
    return Activation(kind=SPELLINGS[name], gated=gated)
