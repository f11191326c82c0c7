"""Rules of engines by name. Needs no torch."""

from functools import cache
from importlib import resources

import yaml

from day0.spec.errors import Day0Error
from day0.spec.rules import Rules

DEFAULT = "day0"


def engine_names() -> list[str]:
    """Engines whose rules come with day0."""
    files = resources.files("day0.templates.engines").iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


@cache
def named_rules(name: str = DEFAULT) -> Rules:
    """The rules of one engine; an error that lists what there is when there are none."""
    known = engine_names()
    if name not in known:
        raise Day0Error(f"no engine named {name!r}", hint=f"known: {', '.join(known)}")
    text = (resources.files("day0.templates.engines") / f"{name}.yaml").read_text(encoding="utf-8")
    return Rules.model_validate(yaml.safe_load(text))
