"""Number types of the stand-in, and what two of them make."""

from typing import Any

from day0.spec.record import record


@record
class Dtype:
    """As torch has it: told apart by identity, with the attributes that code asks for."""

    name: str  #: torch's, "bfloat16"
    itemsize: int  #: bytes of an element
    rank: int  #: of two types the result has the higher one

    @property
    def is_floating_point(self) -> bool:
        return self.rank >= FLOATING

    def __str__(self) -> str:
        return f"torch.{self.name}"


FLOATING, COMPLEX = 20, 30
BYTES = ("uint8", "int8", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float8_e4m3fnuz", "float8_e5m2fnuz")
RANKS = {
    "bool": 0, "uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "uint32": 3, "int32": 3, "uint64": 4, "int64": 4,
    "float8_e4m3fn": 20, "float8_e5m2": 20, "float8_e8m0fnu": 20, "float8_e4m3fnuz": 20, "float8_e5m2fnuz": 20,
    "float16": 21, "bfloat16": 21, "float32": 22, "float64": 23, "complex64": 30,
}  # fmt: skip
WIDTHS = {"16": 2, "32": 4, "64": 8}
DTYPES = {
    name: Dtype(name=name, itemsize=8 if rank == COMPLEX else 1 if name in ("bool", *BYTES) else WIDTHS[name[-2:]], rank=rank)
    for name, rank in RANKS.items()
}
BOOL, INT64, FLOAT32 = DTYPES["bool"], DTYPES["int64"], DTYPES["float32"]
COMPLEX64 = DTYPES["complex64"]


def of_value(value: Any) -> Dtype:
    """Type of a tensor made from a Python number."""
    return BOOL if isinstance(value, bool) else INT64 if isinstance(value, int) else FLOAT32


def joined(first: Dtype, second: Dtype) -> Dtype:
    """What tensors of both types make; two types of 16 bits make float32."""
    if first is second:
        return first
    if first.rank == second.rank and first.is_floating_point:
        return FLOAT32
    return first if first.rank >= second.rank else second


def floating(dtype: Dtype) -> Dtype:
    """Type of a result that is never whole."""
    return dtype if dtype.is_floating_point else FLOAT32
