"""Numbers as they are: bfloat16, float16, float32, float64, and whole numbers of tables. Takes what no other format takes."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from day0.spec.dtype import FLOATING
from day0.spec.format import Format, Stored, TensorHeader

if TYPE_CHECKING:
    from torch import Tensor

TABLES = ("I64", "I32")  # types of tables that say which expert, row or factor
CODES = frozenset({"qweight", "qzeros", "g_idx", "weight_packed", "weight_shape", "weight_zero_point"})  # of packed formats, whose scales are lost


def recognise(headers: Mapping[str, TensorHeader], _config: Mapping[str, Any]) -> Iterator[Stored]:
    """Each floating-point tensor is a weight of its own, and each table of whole numbers: packed codes have other names, or a scale beside."""
    scaled = {name.rpartition(".")[0] for name in headers if "scale" in name.rpartition(".")[2]}
    for header in headers.values():
        place, _, leaf = header.name.rpartition(".")
        if header.dtype in FLOATING or (header.dtype in TABLES and leaf not in CODES and place not in scaled):
            yield Stored(header.name, "plain", header.shape, {"data": header})


def decode(parts: "dict[str, Tensor]", _block: tuple[int, ...], out: "Tensor") -> None:
    """Copy, rounding once to the type of `out`."""
    out.copy_(parts["data"])


FORMAT = Format(name="plain", order=1000, recognise=recognise, decode=decode, packed=False)
