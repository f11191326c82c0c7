"""The report classes by stage: each file beside this one defines one."""

import importlib
import pkgutil

import day0.spec.reports
from day0.spec.reports.base import Report


def kinds() -> dict[str, type[Report]]:
    """Stage → class of its report, in the order of the chain, then by name."""
    for module in pkgutil.iter_modules(day0.spec.reports.__path__):
        importlib.import_module(f"{day0.spec.reports.__name__}.{module.name}")
    found = {kind.STAGE: kind for kind in Report.__subclasses__() if kind.__module__.startswith(f"{day0.spec.reports.__name__}.")}
    order = {stage: place for place, stage in enumerate(day0.spec.reports.CHAIN)}
    return {stage: found[stage] for stage in sorted(found, key=lambda stage: (order.get(stage, len(order)), stage))}
