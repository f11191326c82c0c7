"""Linear map by torch's own operators; matrices that lie side by side are one.

For a few rows of bfloat16 on a CPU the product is taken as (W · xᵀ)ᵀ, which oneDNN runs 1.1 to 1.6 times as fast as x · Wᵀ
(`bench/linear.py`), and for one row as a matrix-vector product.
"""

from typing import Any

from day0.spec.lazy import functional, torch
from day0.spec.ops import Impl, Site

TURNED_ROWS = 16  # beyond them turning the result back costs more than is gained


def launch(x_TI: Any, weight_OI: Any, bias_O: Any = None) -> Any:
    matrix, offset = _joined(weight_OI), _joined(bias_O)
    if x_TI.dtype != torch.bfloat16 or not x_TI.is_cpu or x_TI.shape[0] > TURNED_ROWS:
        return functional.linear(x_TI, matrix, offset)
    if x_TI.shape[0] == 1:
        y_O = torch.mv(matrix, x_TI[0]) if offset is None else torch.addmv(offset, matrix, x_TI[0])
        return y_O[None]
    turned_OT = torch.mm(matrix, x_TI.t()) if offset is None else torch.addmm(offset[:, None], matrix, x_TI.t())
    return turned_OT.t().contiguous()


def _joined(weights: Any) -> Any:
    """One tensor: the given one, the one that its members make up where they lie, or a copy of them."""
    if weights is None or isinstance(weights, torch.Tensor):
        return weights
    joined = getattr(weights, "joined", None)
    return torch.cat(list(weights)) if joined is None else joined


def refuses(site: Site, machine: Any) -> str | None:
    return None if site.format == "plain" else f"reads plain weights, not {site.format}"


IMPL = Impl(op="linear", provider="torch", fn=launch, refuses=refuses, status="native")
