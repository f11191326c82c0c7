"""How a torch operator that a target lacks can be put together from others that it has. Needs no torch."""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

import yaml

from day0.spec.reports.base import Loader
from day0.spec.target import Target


@cache
def compositions() -> Mapping[str, Mapping[str, Any]]:
    """Operator → `is`, a call of it; `by`, the same in words of others; `needs`, those others."""
    table: Mapping[str, Mapping[str, Any]] = yaml.load((resources.files("day0.templates") / "compositions.yaml").read_text(), Loader=Loader)
    return table


def way_out(operator: str, target: Target) -> str:
    """Such as "aten::softplus from clamp_min, abs: x.clamp_min(0) + …"; empty where none is known, or where that too needs what is lacking."""
    known = compositions().get(operator)
    if not known or any(target.line(need).has == "none" for need in known["needs"]):
        return ""
    return f"aten::{operator} can be composed from {', '.join(known['needs'])}: {known['by']}"
