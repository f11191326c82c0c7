"""Calls on tensors that compute: what each allocates besides its result."""

from collections.abc import Callable
from math import ceil, prod
from typing import Any, NamedTuple

from day0.engine.shadow import layout
from day0.engine.shadow.dtype import BOOL, COMPLEX64, FLOAT32, INT64, Dtype, floating, joined, of_value
from day0.engine.shadow.tensor import UNEVEN, Shadow

UNARY = ("neg", "abs", "sign", "square", "relu", "round", "clamp", "clamp_min", "clamp_max", "floor", "logical_not", "roll", "tril", "triu")
FLOATS = ("exp", "cos", "sin", "sqrt", "rsqrt", "sigmoid", "tanh", "log", "log1p", "softplus", "silu", "gelu")
BINARY = ("add", "sub", "mul", "remainder", "and", "or", "xor", "lshift", "rshift", "minimum", "maximum", "nextafter")
IN_PLACE = ("div", "fill", "zero", "masked_fill", "index_add", "index_copy", "index_fill", "addcmul")
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
FEW = 3  # turns that a loop over what differs takes: every later one holds what the last of these held


class Ranked(NamedTuple):
    """What sorting and taking the best give."""

    values: Shadow
    indices: Shadow


def binary(*given: Any, dtype: Dtype | None = None) -> Shadow:
    """An elementwise call on tensors and numbers. Operands of another type are converted first, and live until it is done."""
    tensors = [one for one in given if isinstance(one, Shadow)]
    common = common_dtype(given)
    shape = layout.broadcast(*(one.shape for one in tensors))
    converted = [Shadow(one.heap, one.shape, common) for one in tensors if one.dtype is not common and one.ndim]
    first = max(tensors, key=lambda one: (one.shape == shape, one.ndim))
    strides = layout.alike(shape, first.strides) if first.shape == shape else None
    result = first.made(shape, dtype or common, strides)
    result.limit = max(one.limit for one in tensors) if result.dtype is BOOL else 0
    del converted
    return result


def common_dtype(given: tuple[Any, ...]) -> Dtype:
    """Of tensors with axes, else of tensors without, else of numbers; a later kind only counts where it is of a higher category."""
    found: Dtype | None = None
    ranks = sorted(given, key=lambda one: 2 if not isinstance(one, Shadow) else 1 if one.ndim == 0 else 0)
    kinds = [0 if isinstance(one, Shadow) and one.ndim else 1 if isinstance(one, Shadow) else 2 for one in ranks]
    for kind, one in zip(kinds, ranks, strict=True):
        own = one.dtype if isinstance(one, Shadow) else of_value(one)
        if found is None or (kind == kinds[0] and kind < 2) or category(own) > category(found):
            found = own if found is None else joined(found, own)
    assert found is not None
    return found


def category(dtype: Dtype) -> int:
    """Truths, whole numbers, others."""
    return 0 if dtype is BOOL else 2 if dtype.is_floating_point else 1


def compared(x: Shadow, other: Any) -> Shadow:
    """Truths, which know what share of them is true at the most: of a choice compared with a number, of scores with the k-th best."""
    found = binary(x, other, dtype=BOOL)
    if isinstance(other, Shadow):
        found.limit = other.limit if other.limit <= 1 else 0
    else:
        found.limit = min(1.0, UNEVEN / x.limit) if x.limit >= 1 else 0
    return found


def divided(x: Any, other: Any) -> Shadow:
    common = common_dtype((x, other))
    return binary(x, other, dtype=floating(common))


def reduced(x: Shadow, dim: Any = None, keepdim: bool = False, dtype: Dtype | None = None) -> Shadow:
    """A sum, mean or extreme over some axes."""
    axes = set(range(x.ndim)) if dim is None else {x.axis(axis) for axis in (dim if isinstance(dim, tuple | list) else (dim,))}
    shape = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape) if keepdim or axis not in axes)
    return x.made(shape, dtype)


def summed(x: Shadow, dim: Any = None, keepdim: bool = False, dtype: Dtype | None = None) -> Shadow:
    return reduced(x, dim, keepdim, dtype or (x.dtype if x.dtype.is_floating_point else INT64))


def best(x: Shadow, dim: int | None = None, keepdim: bool = False) -> Any:
    """`max` and `min`: alone, or along an axis with where they are."""
    if dim is None:
        return reduced(x)
    return Ranked(reduced(x, dim, keepdim), reduced(x, dim, keepdim, INT64))


def ranked(x: Shadow, dim: int = -1, descending: bool = False, stable: bool = False) -> Ranked:
    """`sort`; numbers of places remember how many there were."""
    found = Ranked(x.made(x.shape), x.made(x.shape, INT64))
    found.indices.limit = x.shape[dim]
    return found


def topk(x: Shadow, k: int, dim: int = -1) -> Ranked:
    shape = (*x.shape[:-1], k)
    found = Ranked(x.made(shape), x.made(shape, INT64))
    found.values.limit, found.indices.limit = k / x.shape[-1], x.shape[-1]
    return found


def argsort(x: Shadow, dim: int = -1, descending: bool = False, stable: bool = False) -> Shadow:
    return ranked(x).indices


def cumsum(x: Shadow, dim: int) -> Shadow:
    if x.dtype.is_floating_point or x.dtype is INT64:
        return x.made(x.shape)
    x.heap.scratch(2 * 8 * prod(x.shape))
    return x.made(x.shape, INT64)


def softmax(x: Shadow, dim: int, dtype: Dtype | None = None) -> Shadow:
    """Of a tensor whose rows follow each other; others are copied first."""
    source = x.to(dtype) if dtype else x
    source = source.contiguous()
    return source.made(source.shape)


def masked_fill(x: Shadow, mask: Shadow, value: Any) -> Shadow:
    shape = layout.broadcast(x.shape, mask.shape)
    return x.like() if shape == x.shape else x.made(shape)


def where(mask: Shadow, first: Any, second: Any) -> Shadow:
    tensors = [one for one in (first, second) if isinstance(one, Shadow)]
    common = common_dtype((first, second))
    shape = layout.broadcast(mask.shape, *(one.shape for one in tensors))
    return mask.made(shape, common)


def gather(x: Shadow, dim: int, index: Shadow) -> Shadow:
    return x.made(index.shape)


def index_select(x: Shadow, dim: int, index: Shadow) -> Shadow:
    axis = x.axis(dim)
    return x.made((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]))


def nonzero(x: Shadow, as_tuple: bool = False) -> Any:
    """Where truths are: of a comparison with a choice its share, else as many as there are."""
    count = ceil(prod(x.shape) * x.limit) if x.limit else prod(x.shape)
    found = x.made((count, x.ndim), INT64)
    return found.unbind(1) if as_tuple else found


def unique(x: Shadow, return_inverse: bool = False) -> Any:
    count = min(int(x.limit) or prod(x.shape), prod(x.shape))
    x.heap.scratch(2 * x.nbytes)
    found = x.made((count,))
    found.values = range(min(count, FEW))
    return (found, x.made(x.shape, INT64)) if return_inverse else found


def bincount(x: Shadow) -> Shadow:
    """Of choices: some wanted as often as the unevenness says, until none are left."""
    total, kinds = prod(x.shape), int(x.limit) or 1
    most = min(total, ceil(UNEVEN * total / kinds))
    found = x.made((kinds,), INT64)
    found.values = [max(0, min(most, total - most * kind)) for kind in range(min(kinds, FEW))]
    return found


def repeat_interleave(x: Shadow, repeats: Any, dim: int = 0) -> Shadow:
    axis = x.axis(dim)
    if isinstance(repeats, Shadow):
        count = sum(repeats.values or ())
        x.heap.scratch(8 * (count + len(repeats)))
    else:
        count = x.shape[axis] * repeats
    return x.made((*x.shape[:axis], count, *x.shape[axis + 1 :]))


def view_as_complex(x: Shadow) -> Shadow:
    return type(x)(x.heap, x.shape[:-1], COMPLEX64, tuple(stride // 2 for stride in x.strides[:-1]), x.block, x.offset)


def view_as_real(x: Shadow) -> Shadow:
    return type(x)(x.heap, (*x.shape, 2), FLOAT32, (*(2 * stride for stride in x.strides), 1), x.block, x.offset)


def addcmul(x: Shadow, first: Shadow, second: Shadow) -> Shadow:
    return binary(x, first, second)


def unary(x: Shadow, *_: Any, **__: Any) -> Shadow:
    return x.like()


def to_float(x: Shadow, *_: Any, **__: Any) -> Shadow:
    return x.like(floating(x.dtype))


def in_place(x: Shadow, *others: Any, **__: Any) -> Shadow:
    """Operands of another type are converted first."""
    if len(others) == 1 and isinstance(others[0], Shadow) and others[0].dtype is not x.dtype and others[0].dtype is not BOOL:
        x.heap.scratch(prod(others[0].shape) * joined(x.dtype, others[0].dtype).itemsize)
    return x


def methods() -> dict[str, Callable[..., Any]]:
    """Name → what a tensor's method of that name does here."""
    found: dict[str, Callable[..., Any]] = dict.fromkeys(UNARY, unary) | dict.fromkeys(FLOATS, to_float)
    found |= dict.fromkeys(BINARY, binary) | dict.fromkeys(COMPARISONS, compared)
    found |= {f"__{name}__": binary for name in BINARY} | {f"__{name}__": compared for name in COMPARISONS}
    found |= {f"__r{name}__": binary for name in BINARY}
    found |= {"__pow__": binary, "pow": binary, "__floordiv__": binary, "__mod__": binary, "__invert__": unary, "__neg__": unary}
    found |= {"__truediv__": divided, "div": divided, "__rtruediv__": lambda x, other: divided(other, x)}
    found |= {f"{name}_": in_place for name in (*UNARY, *FLOATS, *BINARY, *IN_PLACE)}
    found |= {f"__i{name}__": in_place for name in (*BINARY, "truediv")} | {"scatter_": in_place, "scatter": unary, "index_put": unary}
    found |= {"sum": summed, "mean": reduced, "amax": reduced, "amin": reduced, "max": best, "min": best, "any": reduced, "all": reduced}
    found |= {"sort": ranked, "topk": topk, "argsort": argsort, "cumsum": cumsum, "softmax": softmax, "log_softmax": softmax}
    found |= {"masked_fill": masked_fill, "gather": gather, "index_select": index_select, "nonzero": nonzero, "unique": unique}
    found |= {"bincount": bincount, "repeat_interleave": repeat_interleave, "where": lambda x, mask, other: where(mask, x, other)}
    found["new_ones"] = found["new_zeros"] = found["new_empty"] = created
    found["new_tensor"] = lambda x, value: x.made(())
    return found


def created(x: Shadow, *shape: Any, dtype: Dtype | None = None) -> Shadow:
    sizes = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    return x.made(sizes, dtype)
