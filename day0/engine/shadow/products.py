"""Matrix products, attention and convolution: their results, and what they hold on the way as torch computes them on a processor."""

from math import prod
from typing import Any

from day0.engine.shadow import layout
from day0.engine.shadow.arithmetic import binary, reduced, softmax
from day0.engine.shadow.dtype import BOOL, FLOAT32
from day0.engine.shadow.layout import Shape
from day0.engine.shadow.tensor import Shadow

KEYS = 512  # keys that fused attention takes at once
LAID_OUT = 64  # queries from which it lays out keys and values anew; rows of an operand that a product does
QUERIES = ((768, 256), (192, 64), (0, 32))  # (queries from which, queries that it takes at once)


def bmm(first: Shadow, second: Shadow) -> Shadow:
    return product(first, (first.shape[0], first.shape[1], second.shape[2]))


def product(first: Shadow, shape: Shape) -> Shadow:
    """A result; of 16-bit operands some rows are laid out anew on the way."""
    made = first.made(shape)
    if first.dtype.itemsize == 2:
        first.heap.scratch(2 * min(LAID_OUT, prod(first.shape[:-1])) * first.shape[-1])
    return made


def matmul(first: Shadow, second: Shadow) -> Shadow:
    """`@`: matrices, rows of matrices times one matrix, or stacks of matrices that stretch to each other."""
    if first.ndim <= 2 and second.ndim <= 2:
        return product(first, first.shape[:-1] + second.shape[1:])
    if second.ndim <= 2:
        rows = first.reshape(-1, first.shape[-1])
        return product(rows, (*first.shape[:-1], *second.shape[1:]))
    stack = layout.broadcast(first.shape[:-2], second.shape[:-2])
    left = first.expand(*stack, *first.shape[-2:]).reshape(prod(stack), *first.shape[-2:])
    right = second.expand(*stack, *second.shape[-2:]).reshape(prod(stack), *second.shape[-2:])
    return bmm(left, right).view(*stack, first.shape[-2], second.shape[-1])


def linear(x: Shadow, weight: Shadow, bias: Shadow | None = None) -> Shadow:
    rows = x if x.ndim == 2 else x.reshape(-1, x.shape[-1])
    return product(rows, (*x.shape[:-1], weight.shape[0]))


def einsum(equation: str, *operands: Shadow) -> Shadow:
    """From left to right, two operands at a time as one product of stacks of matrices."""
    terms, out = equation.replace(" ", "").split("->")
    names = terms.split(",")
    found, axes = operands[0], names[0]
    for i in range(1, len(operands)):
        later = {axis for name in names[i + 1 :] for axis in name} | set(out)
        found, axes = pair(found, axes, operands[i], names[i], later)
    return found.permute([axes.index(axis) for axis in out])


def pair(left: Shadow, left_axes: str, right: Shadow, right_axes: str, later: set[str]) -> tuple[Shadow, str]:
    """The product of two operands, and its axes; axes that nobody asks for later are summed."""
    sizes = dict(zip(left_axes, left.shape, strict=True)) | dict(zip(right_axes, right.shape, strict=True))
    shared = [axis for axis in left_axes if axis in right_axes and axis in later]
    summed = [axis for axis in left_axes if axis in right_axes and axis not in later]
    rows, columns = ([axis for axis in own if axis not in other] for own, other in ((left_axes, right_axes), (right_axes, left_axes)))
    if not summed:
        order = [*shared, *rows, *columns]
        common = (spread(left, left_axes, order), spread(right, right_axes, order))
        return binary(*common), "".join(order)
    lengths = [prod(sizes[axis] for axis in group) for group in (shared, rows, summed, columns)]
    stack = left.permute([left_axes.index(axis) for axis in (*shared, *rows, *summed)]).reshape(lengths[0], lengths[1], lengths[2])
    other = right.permute([right_axes.index(axis) for axis in (*shared, *summed, *columns)]).reshape(lengths[0], lengths[2], lengths[3])
    order = [*shared, *rows, *columns]
    return bmm(stack, other).view(tuple(sizes[axis] for axis in order)), "".join(order)


def spread(x: Shadow, axes: str, order: list[str]) -> Shadow:
    """With an axis of one element for each that it lacks."""
    found = x.permute([axes.index(axis) for axis in order if axis in axes])
    for at, axis in enumerate(order):
        if axis not in axes:
            found = found.unsqueeze(at)
    return found


def attention(
    q: Shadow, k: Shadow, v: Shadow, attn_mask: Shadow | None = None, is_causal: bool = False, scale: float = 1.0, enable_gqa: bool = False,
) -> Shadow:  # fmt: skip
    """Fused where keys and values are equally wide; else step by step."""
    if q.shape[-1] == k.shape[-1] == v.shape[-1]:
        return fused(q, k, v, attn_mask)
    if enable_gqa:
        k, v = (x.made((x.shape[0], q.shape[1], *x.shape[2:])) for x in (k, v))
    return stepwise(q, k, v, attn_mask, is_causal)


def fused(q: Shadow, k: Shadow, v: Shadow, mask: Shadow | None) -> Shadow:
    """Blocks of queries meet blocks of keys; sums and products of a block are float32, and for many queries 16-bit keys and values are laid
    out anew."""
    B, H, T, Q = q.shape
    N, S = k.shape[1:3]
    floats = None if mask is None or mask.dtype is not BOOL else mask.made(mask.shape, q.dtype)
    made = q.made((B, T, H, Q)).transpose(1, 2)
    sums = q.made((B, T, H), FLOAT32)
    rows, columns = min(T, next(size for least, size in QUERIES if least <= T)), min(KEYS, S)
    held = 4 * rows * (columns + 2 + Q)
    if q.dtype.itemsize == 2:
        held += 2 * rows * columns + (2 * Q * (2 * B * N * S + columns) if T >= LAID_OUT else 0)
    q.heap.scratch(held)
    del floats, sums
    return made


def stepwise(q: Shadow, k: Shadow, v: Shadow, mask: Shadow | None, is_causal: bool) -> Shadow:
    """Queries and keys are scaled, scores masked, weighed and applied; 16-bit numbers in float32."""
    stored = q.dtype
    if stored.itemsize == 2:
        q, k, v = q.float(), k.float(), v.float()
    if is_causal:
        mask = q.made((q.shape[-2], k.shape[-2]), BOOL)
    if mask is not None and mask.dtype is BOOL:
        mask = mask.made(mask.shape, q.dtype)
    scaled = binary(q, 1.0)
    scores = matmul(scaled, binary(k, 1.0).transpose(-2, -1))
    weights = softmax(scores, -1)
    return matmul(weights, v).to(stored)


def rms_norm(x: Shadow, shape: Any, weight: Shadow | None = None, eps: float = 0.0) -> Shadow:
    """In float32, step by step."""
    wide = x.float()
    factor = reduced(binary(wide, 2), -1, keepdim=True)
    scaled = binary(wide, factor)
    if weight is not None:
        scaled = binary(scaled, weight)
    return scaled.to(x.dtype)


def layer_norm(x: Shadow, shape: Any, weight: Shadow, bias: Shadow, eps: float) -> Shadow:
    x.heap.scratch(2 * 4 * prod(x.shape[:-1]))
    return x.made(x.shape)


def added(bias: Shadow, first: Shadow, second: Shadow) -> Shadow:
    """`addmm` and `addmv`."""
    return matmul(first, second)


def embedding(tokens: Shadow, table: Shadow) -> Shadow:
    return table.made((*tokens.shape, *table.shape[1:]))


def pad(x: Shadow, sizes: tuple[int, ...], value: float = 0.0) -> Shadow:
    return x.made((*x.shape[:-1], x.shape[-1] + sum(sizes)))


def conv1d(x: Shadow, weight: Shadow, bias: Shadow | None = None, dilation: int = 1, groups: int = 1) -> Shadow:
    """The input is laid out anew, and the output once more."""
    source = x.contiguous()
    made = source.made((x.shape[0], weight.shape[0], x.shape[-1] - dilation * (weight.shape[-1] - 1)))
    x.heap.scratch(made.nbytes)
    return made


def vector_norm(x: Shadow, dim: int, keepdim: bool = False, dtype: Any = None) -> Shadow:
    return reduced(x, dim, keepdim, dtype)


def solve_triangular(system: Shadow, x: Shadow, **_: Any) -> Shadow:
    """Both are laid out column by column first."""
    held = system.made(system.shape)
    found = x.made(x.shape)
    del held
    return found


FUNCTIONS = {
    "bmm": bmm, "matmul": matmul, "mm": matmul, "mv": matmul, "addmm": added, "addmv": added, "einsum": einsum, "linear": linear,
    "rms_norm": rms_norm, "layer_norm": layer_norm,
    "embedding": embedding, "pad": pad, "conv1d": conv1d, "scaled_dot_product_attention": attention,
}  # fmt: skip
