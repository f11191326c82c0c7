"""What the software of a target offers: torch operators, number types, vendors' kernels, a compiler; each line with its evidence."""

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from day0.spec.record import record
from day0.spec.reports.base import Strict

Support = Literal["native", "composite", "emulated", "none", "unknown"]
UNVERIFIED = "not verified"
NARROW = ("float8", "float4")  # beginnings of types that not every kernel knows


class Line(Strict):
    """One statement of a manifest."""

    has: Support = Field(
        description="native: a kernel of its own; composite: put together from others; emulated: right, without the hardware for it; "
        "none: absent; unknown: nobody looked"
    )
    source: str = Field(default=UNVERIFIED, description="where it was read or measured")

    def __str__(self) -> str:
        return f"{self.has} ({self.source})"


class TypeLine(Strict):
    """What a target does with one number type."""

    cast: Support = Field(description="conversion from and to wider types, copies and gathers, by torch")
    matrix: Support = Field(description="matrix products in hardware")
    compiled: Support = Field(default="unknown", description="matrix products that its Triton compiles")
    source: str = Field(default=UNVERIFIED, description="where it was read or measured")


class VendorKernel(Strict):
    """A kernel that a vendor's library has, whether or not day0 can call it."""

    op: str = Field(description="operator, a file in day0/ops/, that it could run")
    library: str = Field(description="who has it")
    serves: str = Field(description="for which types, phases and sizes")
    source: str = Field(default=UNVERIFIED, description="where it was read")


class Dispatcher(Strict):
    """torch's operators by how one dispatch key gets them; names without namespace and overload."""

    key: str = Field(description="dispatch key")
    source: str = Field(description="where the registrations were read")
    direct: list[str] = Field(description="have a kernel under the key")
    composite: list[str] = Field(description="work by calling others, or by a loop that is right everywhere and fast nowhere")


class Target(Strict):
    """One manifest: a file in `templates/targets/`, or one written on a machine by `day0 target`."""

    name: str = Field(description="the file's name, as --target takes it")
    path: str | None = Field(default=None, exclude=True, description="where a user's own manifest lies")
    title: str = Field(description="maker and software")
    backend: str = Field(description="file name in day0/backends/; a target may be described before it has one")
    arch: str = Field(default="", description="architecture it is about; empty for all of the backend")
    providers: list[str] = Field(default_factory=lambda: ["torch"], description="implementations to ask where the backend has no file yet")
    dispatcher: str | None = Field(default=None, description="file in templates/dispatchers/ with the registrations of its key")
    registered: Dispatcher | None = Field(default=None, description="registrations that were read on the target itself")
    otherwise: Line = Field(default=Line(has="unknown"), description="torch operators that neither the dispatcher nor a line names")
    operators: dict[str, Line] = Field(default_factory=dict, description="torch operator → what there is; goes before the dispatcher")
    types: dict[str, TypeLine] = Field(default_factory=dict, description="torch's name of a number type → what there is")
    kernels: list[VendorKernel] = Field(default_factory=list, description="what vendors' libraries have")
    libraries: dict[str, Line] = Field(default_factory=dict, description="Python module → whether it can be imported")
    triton: Line = Field(default=Line(has="unknown"), description="whether Triton compiles for it")
    host_fallback: Line = Field(
        default=Line(has="native", source="day0 copies arguments to the host and the result back"),
        description="whether the host may run what the target cannot",
    )
    shared_memory_kib: int | None = Field(
        default=None, gt=0, description="memory that one block of a kernel may share, KiB, by the maker's table of architectures"
    )
    figures: dict[str, float] = Field(default_factory=dict, description="measured on it: copy_gbs, matmul_tflops.<type>")
    note: str = Field(default="", description="traps")

    @property
    def reference(self) -> str:
        """What it is found by again: its name, or the path of a user's own."""
        return self.path or self.name

    def line(self, operator: str) -> Line:
        """What it says about a torch operator."""
        if operator in self.operators:
            return self.operators[operator]
        if self.registered:
            table = self.registered
            has: Support = "native" if operator in table.direct else "composite" if operator in table.composite else "none"
            return Line(has=has, source=f"{table.key}: {table.source}")
        return self.otherwise

    def cast(self, dtype: str) -> Line:
        """What it says about converting and copying a number type; a backend with registrations has the types that torch began with."""
        found = self.types.get(dtype)
        if found:
            return Line(has=found.cast, source=found.source)
        return Line(has="native", source="a base type of torch") if self.registered and not dtype.startswith(NARROW) else self.otherwise


@record
class Uses:
    """What one call asks of torch."""

    operators: frozenset[str] = frozenset()  #: that compute or move numbers; views are left out
    types: frozenset[str] = frozenset()  #: number types of what they read and write
    exact: bool = True  #: recorded for such a call; else all that the implementation was ever seen to use

    def lacking(self, target: Target) -> list[str]:
        """What of it the target has not."""
        operators = [f"aten::{name}" for name in sorted(self.operators) if target.line(name).has == "none"]
        return operators + [dtype for dtype in sorted(self.types) if target.cast(dtype).has == "none"]

    def unknown(self, target: Target) -> list[str]:
        """What of it nobody has looked for."""
        operators = [f"aten::{name}" for name in sorted(self.operators) if target.line(name).has == "unknown"]
        return operators + [dtype for dtype in sorted(self.types) if target.cast(dtype).has == "unknown"]

    @classmethod
    def union(cls, several: Iterable["Uses"]) -> "Uses":
        """All of them together."""
        found = list(several)
        return cls(
            operators=frozenset().union(*(one.operators for one in found)), types=frozenset().union(*(one.types for one in found)),
            exact=all(one.exact for one in found),
        )  # fmt: skip
