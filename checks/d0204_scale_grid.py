"""Every packed weight has its companions: scales in a grid of the right shape, zero points, shapes, in the types of its format.

Why: a packed weight without its scale loads, runs, and answers nonsense or NaN.

Remedy: download the shard again, or quantise with the companion tensors kept.

Example: model.layers.3.mlp.up_proj.weight: model.layers.3.mlp.up_proj.weight_scale_inv [56, 112], expected [112, 56].
"""

from collections.abc import Iterator, Mapping

from day0.checkpoint.folder import Checkpoint
from day0.checkpoint.ledger import Ledger
from day0.checkpoint.unread import Unread, unread
from day0.spec.check import check
from day0.spec.finding import Finding
from day0.spec.format import TensorHeader, Want

HINT = "download the shard again, or quantise with the companion tensors kept"


def run(checkpoint: Checkpoint) -> Iterator[Finding]:
    """Tensors that a format would read if it were not for their companions. fp8 numbers are always told: nothing else looks like them."""
    ledger = Ledger()
    for left in unread(checkpoint):
        if left.evidence or left.header.dtype == "F8_E4M3":
            _tell(left, checkpoint.headers, ledger)
    yield from ledger.findings()


def _tell(left: Unread, headers: Mapping[str, TensorHeader], ledger: Ledger) -> None:
    name = left.header.name
    lacking = [[want for want in reading.wants.values() if want.find(headers) is None] for reading in left.readings]
    expected = ", or ".join(" and ".join(_wanted(want, headers) for want in wants) for wants in lacking)
    present = sorted({_present(headers[other], want) for wants in lacking for want in wants for other in want.names if other in headers})
    found = ", ".join(present) or f"{left.header.dtype} {list(left.header.shape)} without {'scales' if left.bare(headers) else 'it'}"
    ledger.fail("D0204", name, expected=expected, found=found, hint=HINT)


def _wanted(want: Want, headers: Mapping[str, TensorHeader]) -> str:
    """Name and shape, and the type unless it is right; the first name stands for all when none is there."""
    present = next((headers[name] for name in want.names if name in headers), None)
    text = f"{present.name if present else want.names[0]} {' or '.join(str(list(shape)) for shape in want.shapes)}"
    return text if present and present.dtype in want.dtypes else f"{text} in {'/'.join(sorted(want.dtypes))}"


def _present(header: TensorHeader, want: Want) -> str:
    text = f"{header.name} {list(header.shape)}"
    return text if header.dtype in want.dtypes else f"{text} in {header.dtype}"


CHECK = check(__name__, __doc__, run)
