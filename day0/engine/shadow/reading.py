"""The project's own modules, read a second time with shadows for tensors."""

import builtins
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from inspect import isgeneratorfunction
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

from day0.engine.shadow.heap import Heap
from day0.engine.shadow.memory import Remembered
from day0.engine.shadow.module import Module
from day0.spec.format import Format
from day0.spec.registry import Registry, formats, registry

COMPUTING = (
    "day0.blocks.", "day0.ops.", "day0.kernels.", "day0.spec.lazy", "day0.spec.packed", "day0.spec.step", "day0.engine.bind", "day0.engine.heap",
    "day0.engine.layer", "day0.engine.loading", "day0.engine.model", "day0.engine.packed", "day0.engine.sample", "day0.engine.state",
    "day0.engine.vision", "day0.engine.weights",
)  # modules (and packages) that compute on tensors; all others are shared


REMEMBERING = ("day0.ops.", "day0.kernels.")  # whose functions are called with tensors and numbers alone
STRIPE = 1 << 18  # elements that formats decode at once
DECODING = 12  # bytes that they hold for each of them: codes, scales and products in float32


class Formats:
    """Formats that decode without looking: what they hold on the way is at most a stripe."""

    def __init__(self, heap: Heap) -> None:
        self.heap = heap

    def get(self, name: str) -> Format:
        return replace(formats().get(name), decode=self._decode)

    def _decode(self, parts: Any, block: Any, out: Any) -> None:
        self.heap.scratch(DECODING * min(STRIPE, out.numel()))


class Reading:
    """One world of modules in which `import torch` gives a stand-in that counts on `heap`."""

    def __init__(self) -> None:
        self.heap = Heap()
        self.torch = Module(self.heap)
        self._modules: dict[str, Any] = {"torch": self.torch, "torch.nn.functional": self.torch.nn.functional}
        names = {"blocks": "BLOCK", "ops": "OP", "kernels": "IMPL"}
        shelves = {kind: self._shelf(f"day0.{kind}", export) for kind, export in names.items()}
        own = {**vars(importlib.import_module("day0.spec.registry")), **shelves, "formats": lambda: Formats(self.heap)}
        self._modules["day0.spec.registry"] = SimpleNamespace(**own)

    def module(self, name: str) -> Any:
        """A module as it is in this world."""
        if name not in self._modules:
            self._modules[name] = self._read(name)
        return self._modules[name]

    def _shelf(self, package: str, export: str) -> Callable[[], Any]:
        known: Registry = registry(package, export)

        call = {"OP": "reference", "IMPL": "fn"}.get(export)

        class Shelf:
            """A registry whose files are read in this world."""

            def get(_, name: str) -> Any:
                module = self.module(f"{package}.{name}")
                found = getattr(module, export)
                return replace(found, **{call: vars(module)[getattr(found, call).__name__]}) if call else found

            def names(_) -> list[str]:
                return known.names()

        shelf = Shelf()
        return lambda: shelf

    def _read(self, name: str) -> ModuleType:
        found = importlib.util.find_spec(name)
        assert found is not None and found.loader is not None
        module = importlib.util.module_from_spec(found)
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": self._import}
        self._modules[name] = module
        known = sys.modules.setdefault(name, module)  # dataclasses look for the module of a class by its name
        try:
            exec(found.loader.get_code(name), vars(module))  # type: ignore[attr-defined]
        finally:
            if known is module:
                del sys.modules[name]
        if name == "day0.spec.lazy":
            vars(module).update(torch=self.torch, functional=self.torch.nn.functional)
        if name.startswith(REMEMBERING):
            own = {key: value for key, value in vars(module).items() if isinstance(value, FunctionType) and value.__module__ == name}
            vars(module).update({key: Remembered(value, self.heap) for key, value in own.items() if not isgeneratorfunction(value)})
        return module

    def _import(
        self, name: str, globals: Mapping[str, Any] | None = None, locals: Any = None, fromlist: Sequence[str] = (), level: int = 0
    ) -> Any:
        if name.partition(".")[0] == "torch":
            return self.module(name) if fromlist else self.torch
        if name in self._modules or name.startswith(COMPUTING):
            return self.module(name)
        members = [f"{name}.{member}" for member in fromlist or ()]
        if any(member.startswith(COMPUTING) for member in members):
            found = {member.rpartition(".")[2]: self.module(member) for member in members if member.startswith(COMPUTING)}
            return SimpleNamespace(**{**vars(importlib.import_module(name)), **found})
        return builtins.__import__(name, globals, locals, fromlist, level)
