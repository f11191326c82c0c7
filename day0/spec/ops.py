"""Operators, their calls and their implementations, without tensors."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any, Literal

from day0.spec.record import record

Phase = Literal["prefill", "decode"]
PHASES: tuple[Phase, ...] = ("prefill", "decode")
Status = Literal["native", "fused", "emulated", "composite", "reference"]


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
    weight: str | None = None  #: canonical name of the weight, relative to the part; None when it reads none
    layer: int | None = None  #: index in the stack; None outside it
    place: str = ""  #: "mixer", "ffn", "residual" or "" outside the stack
    dtype: str = "bfloat16"  #: compute type
    format: str = "plain"  #: format of the weight at rest

    def __getattr__(self, axis: str) -> int:
        """`site.D` is `site.sizes["D"]`."""
        if len(axis) == 1 and axis in self.sizes:
            return self.sizes[axis]
        raise AttributeError(axis)


@record
class Case:
    """One set of arguments on which every implementation of an operator is compared with its reference."""

    name: str  #: "T63-D60"
    make: Callable[[str], dict[str, Any]]  #: compute dtype → keyword arguments, seeded


@record
class Budget:
    """How far an implementation may be from the reference computed in float64, relative to the root mean square of the result."""

    accumulations: int = 0  #: partial sums that are rounded to the compute type
    special: float = 0.0  #: error of special functions, relative
    exact: bool = False  #: results are integers or choices and must be equal


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


@record
class Impl:
    """One fast implementation of one operator."""

    op: str  #: operator
    provider: str  #: "torch", "triton", a vendor
    fn: Callable[..., Any]  #: same arguments as the reference
    refuses: Callable[[Site, Any], str | None]  #: (site, machine) → why not, or None
    status: Status  #: what it is on the machines it accepts
