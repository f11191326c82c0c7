"""Which torch operators a model's class in transformers calls, found without weights: tensors are fake, modules and functions are watched."""

import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry, sdpa_flop_count

from day0.community.meaning import meaning
from day0.community.skeleton import NoReference, skeleton
from day0.engine.watch import VIEWS, WHOLE, is_view, plain_name
from day0.spec.ops import Phase

DEPTH = 40  # frames that are looked through for a function of the model
Key = tuple[str, str, Phase]  # operator, class of the module, phase


@dataclass
class Calls:
    """Calls of one meaning in modules of one class."""

    modules: dict[str, None] = field(default_factory=dict)  # paths, in the order in which they were met
    count: int = 0
    operators: set[str] = field(default_factory=set)
    types: set[str] = field(default_factory=set)
    flops: float = 0.0
    bytes: float = 0.0


@dataclass
class Discovered:
    """What was seen."""

    model: str  # class
    calls: Mapping[Key, Calls]
    assumed: Mapping[str, str]  # torch operator → what was assumed of the size of its result


class Listener(TorchDispatchMode):
    """Files every call under what it is for."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[Key, Calls] = {}
        self.assumed: dict[str, str] = {}
        self.phase: Phase = "prefill"
        self.within: list[tuple[str, str]] = [("", "")]  # path and class of the modules that run now

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = self._result(func, args, kwargs or {})
        if is_view(func) or plain_name(func) in VIEWS or func.namespace == "prim":
            return result
        path, kind = self.within[-1]
        calls = self.calls.setdefault((meaning(kind, functions()), kind, self.phase), Calls())
        calls.modules.setdefault(path)
        calls.count += 1
        calls.operators.add(plain_name(func))
        calls.flops += flops(func, args, kwargs or {}, result)
        for tensor in tensors((args, kwargs or {}, result)):
            calls.types.add(str(tensor.dtype).removeprefix("torch."))
            calls.bytes += tensor.numel() * tensor.element_size()
        return result

    def _result(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Sizes and numbers that only real tensors have are assumed, and noted."""
        name = plain_name(func)
        if name == "nonzero":
            self.assumed["nonzero"] = "finds as many as its argument has rows"
            return args[0].new_zeros((args[0].shape[0], args[0].dim()), dtype=torch.int64)
        if name == "_local_scalar_dense":
            self.assumed["item"] = "is 0"
            return 0.0 if args[0].is_floating_point() else False if args[0].dtype == torch.bool else 0
        if name in ("index", "index_put") and any(map(is_mask, args[1])):
            self.assumed["index by a mask"] = "takes all rows"
            return func(args[0], [torch.arange(len(place)) if is_mask(place) else place for place in args[1]], *args[2:], **kwargs)
        if name == "_grouped_mm":  # torch's own check of strides refuses widths that a loop over experts would take
            return args[0].new_empty(args[0].shape[0], args[1].shape[-1])
        return func(*args, **kwargs)

    @contextmanager
    def watching(self, model: nn.Module) -> Iterator[None]:
        """Follow which module runs."""
        hooks = []
        for path, module in model.named_modules():
            place = (path, type(module).__name__)
            hooks.append(module.register_forward_pre_hook(lambda _module, _args, place=place: self.within.append(place)))
            hooks.append(module.register_forward_hook(lambda *_: self.within.pop() and None, always_call=True))
        try:
            with self:
                yield
        finally:
            for hook in hooks:
                hook.remove()


def discover(config: Mapping[str, Any], path: str, dtype: torch.dtype, tokens: int) -> Discovered:
    """Read a prompt of `tokens` tokens, then one more. NoReference where transformers has no class, or where it needs numbers to go on."""
    model = built(config, path, dtype)
    listener = Listener()
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        model.to_empty(device="cpu")
        ids = torch.zeros(1, tokens, dtype=torch.int64)
        try:
            with listener.watching(model):
                cache = forward(model, ids, None)
                listener.phase = "decode"
                forward(model, ids[:, :1], cache)
        except Exception as error:  # whatever the class does with numbers that are not there
            raise NoReference(f"{type(model).__name__} cannot be traced without weights: {error}".splitlines()[0], path) from error
    return Discovered(model=type(model).__name__, calls=listener.calls, assumed=listener.assumed)


def built(config: Mapping[str, Any], path: str, dtype: torch.dtype) -> Any:
    """The class with its experts as one grouped product where it can, else as the class itself has them."""
    try:
        return skeleton(config, path, dtype, torch.device("cpu"), experts="grouped_mm")
    except NoReference:
        return skeleton(config, path, dtype, torch.device("cpu"))


def forward(model: Any, ids: Tensor, cache: Any) -> Any:
    """Returns the cache."""
    name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
    given = {} if cache is None else {name: cache}
    result = model(input_ids=ids, use_cache=True, **given)
    return getattr(result, name, None) or result.past_key_values


def flops(func: Any, args: Any, kwargs: Any, result: Any) -> float:
    """Operations of matrix products and attention; 0 of others."""
    name = plain_name(func)
    if name == "_grouped_mm":  # [T, I] × [E, I, O]: each row meets one matrix
        return float(2 * args[0].numel() * args[1].shape[-1])
    if name == WHOLE:
        return float(sdpa_flop_count(*(x.shape for x in args[:3])))
    counted = flop_registry.get(func._overloadpacket)
    return float(counted(*args, **kwargs, out_val=result)) if counted else 0.0


def functions() -> Iterator[str]:
    """Names of transformers' functions that are being called, the innermost first, up to the first module's forward."""
    frame: FrameType | None = sys._getframe(2)
    for _ in range(DEPTH):
        if frame is None:
            return
        if frame.f_globals.get("__name__", "").startswith("transformers"):
            yield frame.f_code.co_name
            if frame.f_code.co_name == "forward":
                return
        frame = frame.f_back


def is_mask(value: Any) -> bool:
    """Whether it chooses places by truth."""
    return isinstance(value, Tensor) and value.dtype == torch.bool


def tensors(value: Any) -> Iterator[Tensor]:
    """All tensors in arguments or results."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from tensors(one)
    elif isinstance(value, dict):
        yield from tensors(list(value.values()))
