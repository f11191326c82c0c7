"""What a file of Triton kernels exports beside its implementation: the calls that are compiled ahead of time, and who can launch them."""

from collections.abc import Mapping
from dataclasses import field
from importlib.util import find_spec
from typing import Any

from day0.spec.machine import Machine
from day0.spec.ops import Site
from day0.spec.record import record

TARGETS = ("sm_80", "sm_90", "sm_100", "sm_120", "gfx942", "gfx950")  # architectures that builds are compiled for
DTYPES = ("bfloat16", "float16", "float32")


@record
class Build:
    """One call whose kernels are compiled for every target, and timed where there is a device."""

    sizes: Mapping[str, Any]  #: axis of the operator's cases → value; an axis that is not given has its first
    dtype: str = "bfloat16"  #: compute type
    format: str = "plain"  #: of the weights as they rest
    explained: Mapping[str, str] = field(default_factory=dict)  #: target → why registers are spilled there, where that is meant

    @property
    def name(self) -> str:
        """Such as "T64-D7168" or "T64-D128-weight=plus one"; several sizes that are alike as "queries=64x1"."""
        said = [f"{axis}{value}" if isinstance(value, int) else f"{axis}={_several(value)}" for axis, value in self.sizes.items()]
        return "-".join(said + [word for word, usual in ((self.format, "plain"), (self.dtype, "bfloat16")) if word != usual])


def _several(value: Any) -> str:
    alike = isinstance(value, tuple) and len({*value}) == 1
    return f"{len(value)}x{value[0]}" if alike else str(value)


def unlaunchable(site: Site, machine: Machine, formats: tuple[str, ...] = ("plain",), dtypes: tuple[str, ...] = DTYPES) -> str | None:
    """Why a kernel for some formats and types cannot run a call whatever its sizes; None when it can."""
    if machine.backend not in ("cuda", "rocm"):
        return "needs a device of NVIDIA or AMD"
    arch = machine.card.arch
    if machine.backend == "cuda" and arch and int(arch.removeprefix("sm_")) < 80:
        return f"{arch} is older than what Triton compiles bfloat16 for (sm_80)"
    if not machine.declared and find_spec("triton") is None:
        return "triton is not installed"
    if site.dtype not in dtypes:
        return f"computes in {', '.join(dtypes)}, not {site.dtype}"
    return None if site.format in formats else f"reads {', '.join(formats)} weights, not {site.format}"
