"""Block-scaled fp8 (DeepSeek-V3, arXiv 2412.19437, §3.3.2): E4M3 codes, one scale for each block of rows × columns.

`X.weight` [..., O, I] comes with `X.weight_scale_inv`, `X.scale` or `X.weight_scale` [..., ceil(O / rows), ceil(I / columns)];
weight = code · scale, for all names. Blocks at the lower and right edge may be ragged. Scales are F32, F16, BF16, or powers of two
(E8M0, also as U8).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from day0.checkpoint.quantization import schemes
from day0.spec.format import Format, Reading, Sample, Steps, Stored, TensorHeader, Want
from day0.spec.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor

Block = tuple[int, int]

SCALES = frozenset({"F32", "F16", "BF16", "F8_E8M0", "U8"})
USUAL = (128, 64, 32, 256, 16, 512, 1024)  # sides of a block, the likeliest first
STRIPE = 1 << 20  # elements decoded at once


def recognise(headers: Mapping[str, TensorHeader], config: Mapping[str, Any]) -> Iterator[Stored]:
    """Each E4M3 weight whose scale grid fits the block of the release; others are left to other formats, or to a finding."""
    pairs = {name: (weight, scale) for name, weight in codes(headers) if (scale := scale_of(weight, headers))}
    times = headers.times if isinstance(headers, Sample) else {}
    shapes: Counter[tuple[tuple[int, ...], tuple[int, ...]]] = Counter()
    for name, (weight, scale) in pairs.items():
        shapes[weight.shape, scale.shape] += times.get(name, 1)
    block = block_size(shapes, config)
    for name, (weight, scale) in pairs.items():
        if block is not None and scale.shape == grid(weight.shape, block) and plausible(scale, block, config):
            yield Stored(name, "fp8_block", weight.shape, {"data": weight, "scale": scale}, block)


def codes(headers: Mapping[str, TensorHeader]) -> Iterator[tuple[str, TensorHeader]]:
    """(name, header) of E4M3 matrices and stacks of them."""
    for name, header in headers.items():
        if header.dtype == "F8_E4M3" and len(header.shape) >= 2:
            yield name, header


def scale_of(weight: TensorHeader, headers: Mapping[str, TensorHeader]) -> TensorHeader | None:
    """The companion that holds the scales, of whatever shape."""
    for name in companions(weight.name):
        header = headers.get(name)
        if header is not None and header.dtype in SCALES:
            return header
    return None


def companions(name: str) -> tuple[str, ...]:
    """Names that the scales of a weight may have."""
    return f"{name}_scale_inv", f"{name.removesuffix('.weight')}.scale", f"{name}_scale"


def grid(shape: tuple[int, ...], block: Block) -> tuple[int, ...]:
    """Shape of the scales of a weight."""
    *stack, rows, columns = shape
    return (*stack, -(-rows // block[0]), -(-columns // block[1]))


def block_size(shapes: Mapping[tuple[tuple[int, ...], tuple[int, ...]], int], config: Mapping[str, Any]) -> Block | None:
    """The one block of a release: the configured one where it fits any (weight, grid) shape, else the one that fits most, each so often.

    Against the configuration only a square block is believed: a damaged grid fits some rectangle.
    """
    stated = configured(config)
    if stated is not None and any(scale == grid(weight, stated) for weight, scale in shapes):
        return stated
    votes: Counter[Block] = Counter()
    candidates = {block for weight, scale in shapes for block in _candidates(weight, scale)}
    for candidate in (block for block in candidates if stated is None or block[0] == block[1]):
        votes[candidate] = sum(count for (weight, scale), count in shapes.items() if scale == grid(weight, candidate))
    return max(votes, key=lambda block: (votes[block], _likelihood(block)), default=None)


def plausible(scale: TensorHeader, block: Block, config: Mapping[str, Any]) -> bool:
    """Powers of two scale one or a multiple of 32; what is called `weight_scale` has square blocks unless the release says otherwise."""
    if scale.dtype in ("F8_E8M0", "U8"):
        return all(side == 1 or side % 32 == 0 for side in block)
    return not scale.name.endswith("weight_scale") or block[0] == block[1] or block == configured(config)


def configured(config: Mapping[str, Any]) -> Block | None:
    """`weight_block_size` of a quantisation configuration, or `block_structure` of one of its groups."""
    for stated in (config.get("weight_block_size"), *(scheme.get("block_structure") for scheme in schemes(config))):
        match stated:
            case [int(rows), int(columns)] if rows > 0 and columns > 0:
                return rows, columns
    return None


def _candidates(weight: tuple[int, ...], scale: tuple[int, ...]) -> Iterator[Block]:
    """Blocks that turn one shape into the other: usual sides, and sides that divide."""
    if len(scale) == len(weight) and scale[:-2] == weight[:-2] and 0 not in scale:
        for rows in _sides(weight[-2], scale[-2]):
            for columns in _sides(weight[-1], scale[-1]):
                yield rows, columns


def _sides(size: int, count: int) -> list[int]:
    fitting = [side for side in USUAL if -(-size // side) == count]
    return fitting if size % count else [*fitting, size // count]


def _likelihood(block: Block) -> tuple[int, int, int]:
    """Usual sides before unusual ones, squares before rectangles, then the larger."""
    places = [USUAL.index(side) if side in USUAL else len(USUAL) for side in block]
    return -max(places), block[0] == block[1], block[0] * block[1]


def decode(parts: "dict[str, Tensor]", block: tuple[int, ...], out: "Tensor") -> None:
    """code · scale, multiplied in float32 (float64 when `out` is) and rounded once to the type of `out`. Stripes keep the memory small."""
    if out.ndim > 2:
        for data, scale, plane in zip(parts["data"], parts["scale"], out, strict=True):
            decode({"data": data, "scale": scale}, block, plane)
        return
    wide = torch.float64 if out.dtype == torch.float64 else torch.float32
    rows, columns = block
    scale = widen(parts["scale"], wide)
    step = max(1, STRIPE // max(1, rows * out.shape[1]))  # block rows in one stripe
    for first in range(0, scale.shape[0], step):
        stripe = slice(first * rows, (first + step) * rows)
        target = out[stripe]
        factor = scale[first : first + step].repeat_interleave(columns, 1)[:, : out.shape[1]]
        factor = factor.repeat_interleave(rows, 0)[: target.shape[0]]
        target.copy_(factor.mul_(parts["data"][stripe].to(wide)))


def widen(scale: "Tensor", wide: Any) -> "Tensor":
    """Scales as floating-point numbers. E8M0 byte b is 2^(b - 127), a subnormal for b = 0, and NaN for b = 255 (OCP MX 1.0, §5.4.1)."""
    if scale.dtype not in (torch.uint8, torch.float8_e8m0fnu):
        return scale.to(wide)
    byte = scale.view(torch.uint8).to(torch.int32)
    bits = torch.where(byte == 0, 1 << 22, byte << 23)
    return torch.where(byte == 255, torch.nan, bits.view(torch.float32)).to(wide)


def reading(header: TensorHeader, _headers: Mapping[str, TensorHeader], config: Mapping[str, Any]) -> Reading | None:
    """With the block that the configuration states, else the one of nearly every release."""
    if header.dtype != "F8_E4M3" or len(header.shape) < 2:
        return None
    block = configured(config) or (USUAL[0], USUAL[0])
    return Reading(header.name, header.shape, {"scale": Want(companions(header.name), SCALES, (grid(header.shape, block),))}, block)


def steps(stored: Stored, axis: int) -> Steps | None:
    """Rows and columns can be cut where a block ends."""
    place = axis - len(stored.shape) + 2
    return {"data": (axis, 1), "scale": (axis, stored.block[place])} if place >= 0 else None


FORMAT = Format(name="fp8_block", order=100, recognise=recognise, decode=decode, packed=True, reading=reading, steps=steps)
