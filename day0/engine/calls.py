"""What a call asks of torch, looked up in a table that was recorded by running models. Needs no torch.

A call is known by what decides its torch operators: implementation, phase, compute type, whether several weights are read at once, whether
values are narrower than keys, and the options of its site. `templates/torch_operators.yaml` holds what was seen for each.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml

from day0.spec.model import PartSpec
from day0.spec.ops import Phase, Site
from day0.spec.reports.base import Loader
from day0.spec.target import Uses

TELLING = frozenset({
    "activation", "bias", "biases", "block", "channels", "chunked", "every", "gate_first", "interleaved", "narrow", "plus_one", "rule",
    "scale_input", "sinks_H", "window",
})  # options that sites declare and that calls can be recognised by


def call_key(phase: Phase, dtype: str, options: Mapping[str, Any], grouped: bool) -> str:
    """Such as "decode bfloat16 grouped activation(silu)"."""
    told = (_told(name, options[name]) for name in sorted(TELLING & set(options)))
    return " ".join([phase, dtype, *(["grouped"] if grouped else []), *filter(None, told)])


def part_key(part: PartSpec, phase: Phase, dtype: str) -> str:
    """What tells one sublayer of a kind from another."""
    return f"{phase} {dtype} {signature(part, inner=False)}".rstrip()


def signature(value: Any, inner: bool = True) -> str:
    """Fields of a record that differ from their default, and its words; `inner`: of records in it too."""
    told = []
    for field in fields(value):
        held = getattr(value, field.name)
        if is_dataclass(held):
            told.append(f"{field.name}({signature(held)})" if inner else field.name)
        elif held != field.default:
            given = field.default is not MISSING or held is True
            told.append((held if field.default is MISSING else f"{field.name}={held}") if isinstance(held, str) else field.name if given else "")
    return ",".join(filter(None, told))


def _told(name: str, value: Any) -> str:
    if value is None or value is False:
        return ""
    if is_dataclass(value):
        return f"{name}({signature(value)})"
    return f"{name}={value}" if isinstance(value, str) else name


@cache
def recorded() -> Mapping[str, Mapping[str, Uses]]:
    """Implementation (kernel file, or an operator's name for its reference; "format:…", "part:…", "forward") → call → what it used."""
    text = (resources.files("day0.templates") / "torch_operators.yaml").read_text(encoding="utf-8")
    table = yaml.load(text, Loader=Loader)
    read = {(words, types): Uses(operators=frozenset(words.split()), types=frozenset(types.split())) for words, types in table["sets"]}
    sets = list(read.values())
    return {name: {key: sets[number] for key, number in calls.items()} for name, calls in table["calls"].items()}


@cache
def uses(name: str, key: str) -> Uses | None:
    """What a call asks of torch; of one that was never seen, all that the implementation was seen to ask; None where it never ran."""
    calls = recorded().get(name)
    if not calls:
        return None
    for known in (key, key.replace("bfloat16", "float32")):  # scores and gates are float32 in a model of any type
        if known in calls:
            return calls[known]
    everything = Uses.union(calls.values())
    return Uses(operators=everything.operators, types=everything.types, exact=False)


def key_of(site: Site, decoded: bool) -> str:
    """The call that a site stands for; weights that are decoded, or are read packed, lie apart from each other."""
    options = {**site.options, **narrow(site)}
    return call_key(site.phase, site.dtype, options, grouped=len(site.weights) > 1 and (decoded or site.format != "plain"))


def narrow(site: Site) -> dict[str, bool]:
    """An option of calls whose heads have values that are narrower than their keys."""
    return {"narrow": site.sizes["V"] < site.sizes["Q"]} if {"N", "Q", "V"} <= {*site.sizes} else {}
