"""Operators, their calls and their implementations, without tensors."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any, Literal

from day0.spec.record import record

Phase = Literal["prefill", "decode"]
PHASES: tuple[Phase, ...] = ("prefill", "decode")
Status = Literal["native", "fused", "compiled", "composite", "reference"]


@record
class Cost:
    """Work of one call."""

    flops: float  #: floating-point operations
    bytes: float  #: read and written


@record
class Site:
    """One call of an operator: where it is, and how large."""

    op: str  #: file name in `ops/`
    label: str  #: which of a layer's calls: the weight it reads ("q", "experts.gate") or what it does ("scores")
    phase: Phase  #: prefill or decode
    sizes: Mapping[str, int]  #: axis letter → elements; T and S are filled in from the workload
    options: Mapping[str, Any] = field(default_factory=dict)  #: what else decides whether a kernel can: "activation"
    weights: tuple[str, ...] = ()  #: canonical names of the weights it reads, relative to the part; all are in one format
    layer: int | None = None  #: index in the stack; None outside it
    place: str = ""  #: "mixer", "ffn", "residual" or "" outside the stack
    dtype: str = "bfloat16"  #: compute type
    format: str = "plain"  #: format of the weights at rest

    def __getattr__(self, axis: str) -> int:
        """`site.D` is `site.sizes["D"]`."""
        if len(axis) == 1 and axis in self.sizes:
            return self.sizes[axis]
        raise AttributeError(axis)


@record
class Case:
    """One set of arguments on which every implementation of an operator is compared with its reference."""

    name: str  #: "T63-D60"
    make: Callable[..., dict[str, Any]]  #: compute dtype (and a kind of `cases.Draw`) → keyword arguments, seeded


ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
TYPICAL = 0.425  # root mean square of a rounding error, in units of the roundoff


@record
class Budget:
    """How far a right implementation is from the reference computed in float64 on the same inputs, relative to the result's RMS."""

    rounds: int = 1  #: times a value on the way to the result is rounded to the compute type
    accumulations: int = 0  #: partial sums that are rounded to the accumulator's type, float32 (float64 for float64)
    special: float = 0.0  #: error of special functions, relative, in units of the accumulator's roundoff
    exact: bool = False  #: results are choices and must be equal

    def relative(self, dtype: str) -> float:
        """Expected relative RMS error when the result is stored in `dtype`."""
        stored, inside = ROUNDOFF[dtype], ROUNDOFF["float64" if dtype == "float64" else "float32"]
        rounded, summed = self.rounds * (TYPICAL * stored) ** 2, self.accumulations / 2 * (TYPICAL * inside) ** 2
        return float((rounded + summed + (self.special * inside) ** 2) ** 0.5)


@record
class Op:
    """An operator: its meaning in plain torch, and how implementations of it are judged and costed."""

    name: str  #: the file's name
    reference: Callable[..., Any]  #: plain torch, float32 inside (float64 when given float64), never optimised
    inputs: Mapping[str, str]  #: argument → axes
    outputs: Mapping[str, str]  #: result → axes
    layer: Literal["base", "fused", "domain"]  #: plain meaning; composition of base operators; from a paper
    cases: Callable[[], Iterator[Case]]  #: with awkward sizes among them
    budget: Budget  #: tolerance
    cost: Callable[[Site], Cost]  #: of one call
    instead: str = ""  #: which operator gives the same, and when; {K} is that size of the call


@record
class Impl:
    """One fast implementation of one operator."""

    op: str  #: operator
    provider: str  #: "torch", "triton", a vendor
    fn: Callable[..., Any]  #: same arguments as the reference
    refuses: Callable[[Site, Any], str | None]  #: (site, machine) → why not, or None
    status: Status  #: what it is on the machines it accepts
    turns: Callable[[Site], Iterable[int]] | None = None  #: tokens of a sequence from which a call holds less than with one fewer, if any
