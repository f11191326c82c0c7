"""Experts that a checkpoint stores as two tensors with all experts in each: gate and up together, and down."""

from day0.spec.names import Cut

GATE_UP = ("gate", "up")


def fused_experts(place: str, *, transpose: bool = False, interleaved: bool = False) -> dict[str, tuple[Cut, ...]]:
    """Names of `gate_up_proj` [E, 2F, D] and `down_proj` [E, D, F] below `place`.

    `transpose`: stored as [E, D, 2F] and [E, F, D]. `interleaved`: gate and up alternate along their axis instead of lying side by side.
    """
    axis = 2 if transpose else 1
    gate_up = tuple(
        Cut(target=f"ffn.experts.{name}", axis=axis, part=part, of=2, interleaved=interleaved, transpose=transpose)
        for part, name in enumerate(GATE_UP)
    )
    return {f"{place}.gate_up_proj": gate_up, f"{place}.down_proj": (Cut(target="ffn.experts.down", transpose=transpose),)}
