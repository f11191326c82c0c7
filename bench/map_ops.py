"""Seconds that `map-ops` takes for every checkpoint of the zoo on every target, and for a released configuration where one is given.

The command `python bench/map_ops.py [MODEL]` prints the longest for each checkpoint; reading and planning are not counted.
"""

import sys
import time
from pathlib import Path

from day0.engine.targets import find_target, target_names
from day0.spec.workload import Workload
from day0.stages.inspect import inspect
from day0.stages.machines import find_machine
from day0.stages.map_ops import map_ops
from day0.stages.plan_memory import plan_memory

sys.path.insert(0, str(Path(__file__).parents[1]))


def longest(folder: Path) -> tuple[float, str, int]:
    """Seconds, target and calls of the slowest map of one model; its writing as YAML is counted."""
    found, machine = inspect(folder), find_machine("cpu")
    plan = plan_memory(found, machine, Workload(context=4096, batch=8))
    times = []
    for name in target_names():
        start = time.perf_counter()
        report = map_ops(found, plan, machine, find_target(name))
        report.to_yaml()
        times.append((time.perf_counter() - start, name, len(report.sites)))
    return max(times)


def main() -> None:
    from tests.zoo import checkpoint, names

    folders = [Path(word) for word in sys.argv[1:]] or [checkpoint(name) for name in names()]
    print(f"{len(target_names())} targets\n{'model':32}{'calls':>8}{'longest':>10}  target")
    for folder in folders:
        seconds, target, calls = longest(folder)
        print(f"{folder.name:32}{calls:8}{seconds:9.2f}s  {target}", flush=True)


if __name__ == "__main__":
    main()
