"""Released tensors, decoded by our formats, into the modules of transformers: the whole model or one layer at a time."""

import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from day0.checkpoint.folder import Checkpoint
from day0.community.ends import stream_ends
from day0.community.extra import transformers
from day0.community.skeleton import decoder_layers
from day0.engine.loading import decoded
from day0.spec.errors import Day0Error
from day0.spec.format import Stored

TURNED = "_blocks"  # ends the names of weights that are packed turned: [..., O, I] where the class has [..., I, O]
ENDS = -1  # the group of what lies outside the layers: embeddings, final norm, head


class Feed:
    """Which released tensors each layer of the class takes, under the names and mergers that transformers itself knows."""

    def __init__(self, model: Any, checkpoint: Checkpoint, dtype: torch.dtype, device: torch.device, towers: bool = False) -> None:
        self._model, self._checkpoint, self._device = model, checkpoint, device
        self._loading = transformers("core_model_loading")
        self._mapping = transformers("conversion_mapping").get_model_conversion_mapping(model)
        _turn_squares(self._mapping, self._loading)
        self._config = transformers("modeling_utils").LoadStateDictConfig(
            dtype=dtype, dtype_plan=model._get_dtype_plan(dtype), weight_mapping=self._mapping, device_map={"": device})
        self._path, self._layers = decoder_layers(model)
        head = model.get_output_embeddings()
        heads = (f"{name}." for name, module in model.named_modules() if module is head)
        self._text = ("",) if towers else (self._path.rpartition(".")[0] + ".", *heads)
        self.unused: list[str] = []  #: released tensors that the class has no place for
        self.groups: dict[int, dict[str, Stored]] = {ENDS: {}, **{i: {} for i in range(len(self._layers))}}
        self._streamed: set[str] = set()  # parameters that are never loaded
        self._sort()

    def _sort(self) -> None:
        state = self._model.state_dict()
        layer = re.compile(re.escape(self._path) + r"\.(\d+)\.")
        for name, target in self._targets(state):
            if target not in state:
                self.unused.append(name)
                continue
            if not self._wanted(target):
                continue
            found = layer.match(target)
            self.groups[int(found[1]) if found else ENDS][name] = self._checkpoint.stored[name]

    def _wanted(self, target: str) -> bool:
        """Whether a parameter is wanted: of the stack or its head, and of a tower beside them where those are."""
        return target.startswith(self._text)

    def _targets(self, state: dict[str, Any]) -> Iterator[tuple[str, str]]:
        """(released name, name of the parameter that it becomes or becomes a part of)."""
        renamings = [m for m in self._mapping if isinstance(m, self._loading.WeightRenaming)]
        converters = [m for m in self._mapping if isinstance(m, self._loading.WeightConverter)]
        prefix = self._model.base_model_prefix
        for name in self._checkpoint.stored:
            plain = name.removesuffix(TURNED)
            target, _ = self._loading.rename_source_key(plain, renamings, converters, prefix, state)
            if target not in state and plain in state:
                target = plain
            yield name, target

    def stream_ends(self) -> None:
        """Leave embedding table and head where they lie; rows are read when they are used."""
        dtype = self._config.dtype
        targets = {target: name for name, target in self._targets(self._model.state_dict()) if name in self.groups[ENDS]}
        sources = {target: self.groups[ENDS][name] for target, name in targets.items()}
        self._streamed = stream_ends(self._model, self._checkpoint, sources, dtype, self._device)
        for target in self._streamed & targets.keys():
            del self.groups[ENDS][targets[target]]

    def load(self, group: int) -> None:
        """Make the weights of one layer (or `ENDS`) real."""
        tensors = {name.removesuffix(TURNED): _Late(self._checkpoint, stored) for name, stored in self.groups[group].items()}
        info, _ = self._loading.convert_and_load_state_dict_in_model(self._model, tensors, self._config)
        for name, found, expected in sorted(info.mismatched_keys):
            raise Day0Error(f"{name} has shape {tuple(found)}, transformers expects {tuple(expected)}", self._checkpoint.folder)
        for name, problem in info.conversion_errors.items():
            raise Day0Error(f"{name}: {problem.splitlines()[0]}", self._checkpoint.folder)
        if group == ENDS:
            self._model.tie_weights()
        else:
            self._recompute(self._layers[group])
            self._without_bias(self._layers[group])
        self._require(group)

    def _recompute(self, layer: nn.Module) -> None:
        """Buffers that the release leaves out, and that the class computes by itself."""
        for module in layer.modules():
            own = {name: buffer for name, buffer in module.named_buffers(recurse=False) if buffer.is_meta}
            if own and not module._parameters:
                for name, buffer in own.items():
                    setattr(module, name, torch.full_like(buffer, torch.nan, device=self._device))
                self._model._init_weights(module)
                for name in own:
                    if getattr(module, name).isnan().any():
                        setattr(module, name, own[name])

    def _without_bias(self, layer: nn.Module) -> None:
        """A correction that the class always has and the release does not store adds nothing."""
        for name, buffer in list(layer.named_buffers()):
            owner, _, last = name.rpartition(".")
            if buffer.is_meta and last.endswith("correction_bias"):
                setattr(layer.get_submodule(owner), last, torch.zeros_like(buffer, device=self._device))

    def drop(self, group: int) -> None:
        """Give the memory of one layer back."""
        assert group != ENDS
        layer = self._layers[group]
        for name, value in layer.state_dict().items():
            owner = layer.get_submodule(name.rpartition(".")[0])
            void = torch.empty_like(value, device="meta")
            setattr(owner, name.rpartition(".")[2], nn.Parameter(void, requires_grad=False) if _is_parameter(owner, name) else void)

    def _require(self, group: int) -> None:
        layer = f"{self._path}."
        names = self._layers[group].state_dict(prefix=f"{layer}{group}.") if group != ENDS else self._model.state_dict()
        for name, value in names.items():
            if value.is_meta and name not in self._streamed and self._wanted(name) and (group != ENDS or not name.startswith(layer)):
                raise Day0Error(f"the release has no tensor for {name}", self._checkpoint.folder, hint="run `day0 inspect`")


def _turn_squares(mapping: Any, loading: Any) -> None:
    """A bank that a release stores turned is turned where its matrices are square, too: there transformers takes it as it is."""

    class Turned(loading.Transpose):  # type: ignore[misc]
        def convert(self, input_dict: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
            held = next(iter(input_dict.values()))
            shape = (held[0] if isinstance(held, list) else held).shape
            way: Any = loading.Transpose(self.dim0, self.dim1) if shape[self.dim0] == shape[self.dim1] else super()
            return way.convert(input_dict, *args, **kwargs)

    for converter in mapping:
        operations = getattr(converter, "operations", None) or []
        for place, found in enumerate(operations):
            if getattr(found, "check_dims", False):
                operations[place] = Turned(found.dim0, found.dim1, check_dims=True)


def _is_parameter(owner: nn.Module, name: str) -> bool:
    return name.rpartition(".")[2] in owner._parameters


class _Late:
    """Reads and decodes a tensor when the loader asks for its content."""

    def __init__(self, checkpoint: Checkpoint, stored: Stored) -> None:
        self._checkpoint, self._stored = checkpoint, stored

    def __getitem__(self, _everything: Any) -> torch.Tensor:
        whole = self._stored.parts["data"].dtype in ("I64", "I32") and self._stored.format == "plain"
        value = decoded(self._checkpoint.folder, self._stored, torch.int64 if whole else torch.float32)
        return value.transpose(-1, -2) if self._stored.name.endswith(TURNED) else value
