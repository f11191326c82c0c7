"""Plans for tests that are about something else."""

from unittest.mock import patch

from day0.engine.shadow.heap import NotRehearsed
from day0.spec.machine import Machine
from day0.spec.reports.inspect import InspectReport
from day0.spec.reports.plan_memory import PlanMemoryReport
from day0.spec.workload import Workload
from day0.stages.plan_memory import plan_memory


def quick_plan(inspected: InspectReport, machine: Machine, workload: Workload) -> PlanMemoryReport:
    """Activations by formulas, as where code cannot be followed; rehearsing them takes a second for each model and size."""
    with patch("day0.engine.working.ladder", side_effect=NotRehearsed("not wanted by the test")):
        return plan_memory(inspected, machine, workload)
