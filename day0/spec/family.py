"""What a file in `families/` exports."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from typing import Any

from day0.spec.model import Model
from day0.spec.names import Names
from day0.spec.record import record


@record
class Family:
    """A model family: which configurations it recognises, what they say, and what its tensors are called on disk."""

    recognises: frozenset[str]  #: values of `model_type`
    read: Callable[[Any], Model]  #: checkpoint.config.Config → Model
    names: Names  #: checkpoint ↔ canonical
    fit: Callable[[Model, Collection[str]], Model] | None = None  #: what only the checkpoint's names tell: (model, names) → model
    packed: tuple[str, ...] = ("linear", "expert")  #: roles of weights that its releases pack, where a configuration does not leave them out
    towers: Mapping[str, Names] = field(default_factory=dict)  #: tower → the same for its weights; "patches.…", "connector.…" are its ends
