"""Published figures of memory against the planner's: `python -m tests.plan.truth docs/plan-figures.md` writes the table."""

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from day0.engine import transient
from day0.engine.demand import Demand
from day0.engine.entries import printed_tokens
from day0.engine.inventory import Inventory
from day0.engine.offload import offload
from day0.engine.release import Release
from day0.engine.rules import named_rules
from day0.engine.search import plan
from day0.spec.dtype import size
from day0.spec.reports.plan_memory import PlanMemoryReport
from day0.spec.workload import Workload
from day0.stages.machines import find_machine
from day0.stages.plan_memory import complete, degrees, report

HERE = Path(__file__).parent
GIB, MIB = 1 << 30, 1 << 20


@cache
def rows() -> list[dict[str, Any]]:
    """All published figures."""
    found: list[dict[str, Any]] = yaml.safe_load((HERE / "truth.yaml").read_text())
    return found


@cache
def models() -> dict[str, dict[str, Any]]:
    """Model → the fields of its configuration that decide memory."""
    found: dict[str, dict[str, Any]] = yaml.safe_load((HERE / "models.yaml").read_text())
    return found


@cache
def release(model: str) -> Release:
    """A model from its configuration alone."""
    return opened(models()[model])


@cache
def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder that is there as long as the process."""
    return tempfile.TemporaryDirectory()


def opened(config: dict[str, Any]) -> Release:
    """A release that has a configuration and no weights."""
    folder = Path(tempfile.mkdtemp(dir=scratch().name))
    (folder / "config.json").write_text(json.dumps(config))
    return Release.open(folder)


@cache
def inventory(model: str, dtype: str) -> Inventory:
    return Inventory(release(model), dtype)


def demand(model: str, of: Release | None = None, machine: str = "b300", **ask: Any) -> Demand:
    """The plan for a published figure."""
    workload = Workload(**ask)
    planned = of or release(model)
    load = complete(workload, planned)
    made = Demand(planned, load, find_machine(machine), inventory=None if of else inventory(model, load.dtype))
    return plan(made, degrees(workload))


def reported(model: str, machine: str, **ask: Any) -> PlanMemoryReport:
    workload = Workload(**ask)
    return report(demand(model, machine=machine, **ask), workload, degrees(workload))


class Answer(NamedTuple):
    """What the planner says to one row."""

    row: dict[str, Any]
    value: float | str

    @property
    def error(self) -> float | None:
        """Relative, in percent."""
        published = self.row["value"]
        return 100 * (self.value / published - 1) if isinstance(self.value, int | float) and published else None

    @property
    def holds(self) -> bool:
        """Whether it is what was published, within its tolerance."""
        if self.row["kind"] == "must_refuse":
            return self.value == "refuse"
        if "accept" in self.row:
            least = self.row["value"] / (2 if self.row["accept"].startswith("published/2") else 1)
            return not isinstance(self.value, str) and least <= self.value <= self.row["value"]
        bound = self.row["tolerance_pct"]
        return bound is None or (self.error is not None and abs(self.error) <= bound + 1e-9)


def answer(row: dict[str, Any], of: Release | None = None) -> Answer:
    """The planner's figure for a row."""
    given = row.get("given", {})
    figure = FIGURES[row["figure"]]
    if "model" not in row:
        return Answer(row, figure(None, **given))
    ask = dict(row["ask"])
    if row["kind"] in ("min_cards", "must_refuse"):
        return Answer(row, figure(reported(row["model"], **ask), **given))
    return Answer(row, figure(demand(row["model"], of, **ask), **given))


def token(d: Demand) -> int:
    return sum(pool.entry_bytes // pool.spec.every for pool in d.pools(1) if pool.spec.grows)


def one(d: Demand, use: str) -> int:
    return next(pool.entry_bytes for pool in d.pools(1) if pool.spec.use == use)


def padded_away(_: None, width: int, old: int, new: int) -> float:
    return 100 * (1 - (-(-width // new) * new) / (-(-width // old) * old))


def fp8_by_mxfp4(d: Demand) -> float:
    """Expert elements at one byte each, by the bytes of the bank as it is stored."""
    bank = next(each for weights in d.inventory.kinds for each in weights.values() if each.spec.role == "expert")
    return bank.spec.count / sum(size(part.dtype, 1) * _elements(part.shape) for part in bank.pieces[0][1].kept.values()) / _share(bank)


def _share(bank: Any) -> float:
    cut = bank.pieces[0][0].cut
    return 1 / cut.of if cut else 1


def _elements(shape: tuple[int, ...]) -> int:
    count = 1
    for each in shape:
        count *= each
    return count


def refusal(found: PlanMemoryReport, code: str) -> str:
    said = [reason.code for reason in found.reasons if reason.status == "fail"]
    return "refuse" if found.verdict != "fits" and code in said else f"{found.verdict}: {', '.join(said)}"


def host(d: Demand) -> float:
    return sum(tier.needed_p50 for tier in offload(d, None).tiers if tier.where == "host") / 1e9


def stored(d: Demand) -> int:
    total = sum(weight.bytes for weight in d.release.checkpoint.stored.values())
    if d.workload.prediction:
        total += sum(part.bytes for located in d.inventory.prediction.values() for _, part in located.pieces)
    return total


FIGURES: dict[str, Callable[..., float | str]] = {
    "token": token,
    "latent_entry": lambda d: one(d, "latent"),
    "index_entry": lambda d: one(d, "index"),
    "latent_gib": lambda d: sum(pool.bytes for pool in d.pools(d.pages) if pool.spec.use == "latent") / GIB,
    "latents_of_all_layers": lambda d: one(d, "latent") * len(d.release.model.layers),
    "replicas": lambda d, tokens: 8 * token(d) * tokens,
    "state_gib": lambda d: d.card().state / GIB,
    "ratio_to_v32": lambda d: 61 * (576 + 128) * 2 * d.workload.context / d.card().state,
    "tokens_in": lambda d, gib: int(gib * GIB) // (token(d) * d.workload.page_size) * d.workload.page_size,
    "sequences_in": lambda d, gib: gib * GIB / d.card().state,
    "sequence_mib": lambda d: sum(pool.entry_bytes * pool.entries for pool in d.pools(1) if not pool.spec.grows) / MIB,
    "printed_tokens": lambda d, gib: printed_tokens(d.pools(1), int(gib * GIB)),
    "disk": stored,
    "disk_router32": lambda d: stored(d) + sum(2 * each.spec.count for each in d.release.tensors.values() if each.spec.role == "router"),
    "disk_with": lambda d, apart: stored(d) + apart,
    "disk_gib": lambda d: stored(d) / GIB,
    "disk_gb": lambda d: stored(d) / 1e9,
    "disk_tb": lambda d: stored(d) / 1e12,
    "weights_gib": lambda d: d.card().weights / GIB,
    "outside_torch_gib": lambda d: d.rules.context_gib.p50 + sum(d.collectives.values()) / GIB,
    "transient_mib": lambda d, name: d.transients[name] / MIB,
    "padded_away": padded_away,
    "padding_width": lambda _, arch: next(r.width for r in named_rules("vllm").padding if r.speaks_of("mxfp4", arch)),
    "exchange": lambda _, experts, tokens, hidden: transient.exchange(experts, tokens, hidden),
    "repack": lambda d: d.rules.repack,
    "fp8_by_mxfp4": fp8_by_mxfp4,
    "cards": lambda found: found.cards,
    "refusal": refusal,
    "host_gb": host,
}


def answers() -> Iterator[Answer]:
    """Every row that has a figure."""
    yield from (answer(row) for row in rows() if "figure" in row)


HEAD = """# Published figures of memory, and the planner's

Each row is a figure that an engine printed, a paper states, or a vendor publishes, with the plan that should give it: models from their
published architecture alone (`tests/plan/models.yaml`), figures with sources and bounds in `tests/plan/truth.yaml`. Rows that state a number
of cards or a refusal are whole plans. Where weights differ by more than 1 %, what the engine holds besides is not known, and is not tuned
away. Written by `python -m tests.plan.truth docs/plan-figures.md`.

"""


def line(found: Answer) -> str:
    """One row of the table."""
    row, error = found.row, found.error
    bound = "" if row["tolerance_pct"] is None else f"{row['tolerance_pct']} %"
    note = "engine residual unknown" if row["kind"] == "weights" and error is not None and abs(error) > 1 else ""
    said = f"{found.value:,.6g}" if isinstance(found.value, float) else f"{found.value:,}" if isinstance(found.value, int) else found.value
    published = f"{row['value']:,}" if isinstance(row["value"], int | float) else row["value"]
    off = "" if error is None else f"{error:+.3f} %"
    return f"| {row['id']} | {published} {row['unit']} | {said} | {off} | {row.get('accept', bound)} | {'' if found.holds else '**no** '}{note} |"


def document() -> str:
    """The table, what it sums up to, and the rows that are open."""
    found = list(answers())
    errors = sorted(abs(each.error) for each in found if each.error is not None and each.row["kind"] in ("kv", "index_cache", "state", "disk"))
    loads = sorted(abs(each.error) for each in found if each.error is not None and each.row["kind"] == "weights")
    head = f"{sum(each.holds for each in found)} of {len(found)} hold. State and files: median error {errors[len(errors) // 2]:.3f} %, "
    head += f"worst {errors[-1]:.2f} %. Loaded weights: median {loads[len(loads) // 2]:.2f} %, worst {loads[-1]:.1f} %.\n\n"
    table = ["| figure | published | planned | error | bound | |", "|---|---|---|---|---|---|", *map(line, found)]
    left = [f"* {row['id']} ({row['value']} {row['unit']}): {row['open']}" for row in rows() if "open" in row]
    return HEAD + head + "\n".join(table) + "\n\nRows without an answer:\n\n" + "\n".join(left) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(document(), encoding="utf-8")
