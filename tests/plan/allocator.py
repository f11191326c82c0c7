"""Bytes that torch's CPU allocator held, as its own profiler records them: every allocation, those inside of operators too."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch._C._autograd import _disable_profiler, _enable_profiler, _prepare_profiler
from torch._C._profiler import ProfilerActivity, ProfilerConfig, ProfilerState, _ExperimentalConfig

from day0.engine.shadow.module import Tensor
from day0.engine.shadow.reading import Reading


def peak(call: Callable[[], Any]) -> int:
    """The most that lived at once beyond what lived before `call`."""
    config = ProfilerConfig(ProfilerState.KINETO, False, True, False, False, False, _ExperimentalConfig())
    _prepare_profiler(config, {ProfilerActivity.CPU})
    _enable_profiler(config, {ProfilerActivity.CPU}, set())
    kept = call()
    recorded = _disable_profiler()
    del kept
    events = [(event.start_ns(), event.nbytes()) for event in recorded.events() if event.name() == "[memory]"]
    live = most = 0
    for _, size in sorted(events, key=lambda event: event[0]):
        live += size
        most = max(most, live)
    return most


def rehearsed(call: Callable[[], Any], reading: Reading) -> int:
    """The same of a call on shadows."""
    reading.heap.restart()
    kept = call()
    del kept
    return reading.heap.peak


def shadowed(value: Any, reading: Reading) -> Any:
    """The same value with shadows for tensors."""
    if isinstance(value, torch.Tensor):
        made = Tensor(reading.heap, tuple(value.shape), shadowed(value.dtype, reading), tuple(value.stride()))
        made.limit = int(value.max()) + 1 if value.dtype == torch.int64 and value.numel() and value.ndim else 0
        return made
    if isinstance(value, torch.dtype):
        return getattr(reading.torch, str(value).removeprefix("torch."))
    if isinstance(value, tuple | list):
        return type(value)(shadowed(one, reading) for one in value)
    if isinstance(value, dict):
        return {key: shadowed(one, reading) for key, one in value.items()}
    if is_dataclass(value) and type(value).__module__ == "day0.spec.step":
        twin = getattr(reading.module("day0.spec.step"), type(value).__name__)
        return twin(**{field.name: shadowed(getattr(value, field.name), reading) for field in fields(value)})
    return value
