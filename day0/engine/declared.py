"""A release of which only the configuration is here: the weights that its family declares, stored as the configuration says. No torch."""

import re
from collections.abc import Mapping
from dataclasses import replace

from day0.checkpoint.folder import Checkpoint
from day0.checkpoint.layout import store
from day0.checkpoint.scheme import PLAIN, Scheme
from day0.engine.specs import end_specs, specs
from day0.spec.dtype import COMPUTE
from day0.spec.family import Family
from day0.spec.format import Stored
from day0.spec.model import Model, TensorSpec
from day0.spec.names import Names


def declare(checkpoint: Checkpoint, family: Family, model: Model) -> tuple[Checkpoint, Family]:
    """The checkpoint with the weights it would have, and the family reading them by their canonical names: nothing says those on disk.

    Experts lie in one stack. Weights of towers and of prediction layers are in no declaration: they are left out.
    """
    scheme = Scheme(checkpoint.quantization, checkpoint.config.data)
    spelled = spellings(family.names)
    stored: dict[str, Stored] = {}
    for name, spec in specs(model):
        index, within = _place(name, family.names.per_layer)
        modules = [module.replace("{i}", index) for module in spelled.get(within, (name,))]
        packable = spec.role in family.packed and spec.precision == "compute" and len(spec.shape) > 1
        packing = scheme.packing(modules, expert=spec.role == "expert") if packable else PLAIN
        stored[name] = store(name, spec.shape, packing, _rest(spec, model.dtype))
    headers = {part.name: part for weight in stored.values() for part in weight.parts.values()}
    inside = {name.split(".", 2)[2] for name in stored if name.startswith("layers.")}
    ends = [name for name, _ in end_specs(model)]
    names = Names(layer="layers.{i}.", tensors={name: name for name in inside}, ends={name: name for name in ends})
    return replace(checkpoint, headers=headers, stored=stored), replace(family, names=names, fit=None)


def spellings(names: Names) -> Mapping[str, list[str]]:
    """Canonical name within a layer, or outside → what the module may be called on disk, with `{i}` for the layer and 0 for the expert."""
    found: dict[str, list[str]] = {}
    inside = {f"{names.layer}{name}": target for name, target in names.tensors.items()}
    for name, target in {**inside, **names.ends}.items():
        for one in (target,) if isinstance(target, str) else target:
            canonical = one if isinstance(one, str) else one.target
            module = name.replace("{e}", "0").removesuffix(".weight")
            found.setdefault(canonical, []).extend(prefix + module for prefix in dict.fromkeys((*names.prefixes, "")))
    return found


def _place(name: str, per_layer: int) -> tuple[str, str]:
    """(layer on disk, canonical name within it as `Names.tensors` has it) of a weight; ("", its name) outside the layers."""
    match = re.match(r"layers\.(\d+)\.", name)
    if match is None:
        return "", name
    layer, place = divmod(int(match[1]), per_layer)
    return str(layer), (f"{place}." if per_layer > 1 else "") + name[match.end() :]


def _rest(spec: TensorSpec, dtype: str) -> str:
    """Type of an unpacked weight on disk: that of the release, and whole numbers as such."""
    return "I64" if spec.precision == "integer" else COMPUTE[dtype]
