"""What defines one tiny checkpoint, and the discovery of all of them in the folder `families`."""
import functools
import importlib
import pkgutil
from dataclasses import dataclass, field

from . import families
from .experts import Experts

GATED_EXPERT = ("gate_proj", "up_proj", "down_proj")


@dataclass(frozen=True)
class Packing:
    """FP8: E4M3 codes, one scale of type `scale` (a torch dtype name) per `block` (rows, columns), where None is all of them.

    `listed` writes the names of the modules left in bfloat16 into the configuration; `notes` are further keys of it.
    """
    block: tuple[int | None, int | None]
    scale: str
    listed: bool = False
    notes: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Family:
    """One architecture at a tiny size.

    `keys` is config.json in released spelling, apart from token ids, dtype and architecture, which the builder adds.
    `renames` maps parts of transformers' in-memory tensor names to the released ones, `expert` names the three matrices
    of an expert in the order gate, up, down; None leaves all experts in one tensor, which is a `bank` of a kind: "fused" as transformers
    holds them, "turned" with the last axes exchanged, "apart" with gate and up in tensors of their own. In-memory names in which the
    expression `without` is found are left out, and the released names and shapes `extra` are stored on top. `centred` matches the
    norms whose weight is stored as its difference from one. `prediction` asks
    for one extra prediction layer beyond the last decoder layer, `copies` says whether that repeats embedding and head.
    `seed` was chosen for wide top-k margins; `python -m tests.zoo --search 20 NAME` compares seeds.
    """
    config_class: str
    model_class: str
    keys: dict
    seed: int = 0
    renames: dict = field(default_factory=dict)
    expert: tuple[str, str, str] | None = GATED_EXPERT
    bank: str = "fused"
    prediction: bool = False
    packing: Packing | Experts | None = None
    copies: bool = True
    without: str = ""
    centred: str = ""
    extra: dict = field(default_factory=dict)


@functools.cache
def catalog():
    """Name -> Family: `FAMILY` of every module in `families`, and under "<module>-<suffix>" its `VARIANTS`."""
    found = {}
    for module in sorted(m.name for m in pkgutil.iter_modules(families.__path__)):
        contents = importlib.import_module(f"{families.__name__}.{module}")
        found[module] = contents.FAMILY
        for suffix, variant in getattr(contents, "VARIANTS", {}).items():
            found[f"{module}-{suffix}"] = variant
    return found


def names():
    """Names of all checkpoints, sorted."""
    return sorted(catalog())
