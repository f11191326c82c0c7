"""Whether a model can be cut as a placement says, on the machine's cards: all violated rules at once. Needs no torch."""

from collections.abc import Iterator
from dataclasses import replace

from day0.engine.demand import Demand
from day0.engine.shard import Problem
from day0.spec.finding import Finding
from day0.spec.machine import Machine
from day0.spec.placement import Placement


def problems(demand: Demand) -> list[Problem]:
    """Every rule that is violated, each once with all that it is about."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for problem in (*_ranks(demand), *_weights(demand)):
        found.setdefault((problem.rule, problem.expected, problem.found), []).append(problem.subject)
    return [
        Problem(rule=rule, subject=", ".join(dict.fromkeys(subjects)), expected=expected, found=asked)
        for (rule, expected, asked), subjects in found.items()
    ]


def found(demand: Demand, code: str, *rules: str) -> Iterator[Finding]:
    """Findings of a check on violated rules, with what is legal on as many cards."""
    broken = [problem for problem in problems(demand) if problem.rule in rules]
    hint = ways(demand) if broken else ""
    for problem in broken:
        yield Finding(code=code, status="fail", subject=problem.subject, expected=problem.expected, found=problem.found, hint=hint)


def ways(demand: Demand) -> str:
    """Legal ways to use as many cards, were nothing fixed: by ranks, by stages, and with experts held twice."""
    count, experts = demand.placement.cards, demand.inventory.experts
    tries = [Placement(tp=tp, dp=count // tp, ep=ep) for tp in range(count, 0, -1) if count % tp == 0 for ep in (count, 1)]
    tries += [Placement(dp=count, ep=count, redundant=-experts % count), Placement(pp=count)]
    machine = replace(demand.machine, cards=max(count, demand.machine.cards))
    legal = [place for place in tries if not problems(Demand(demand.release, demand.workload, machine, place, demand.inventory))]
    lesser = next((tp for tp in range(count - 1, 0, -1) if not problems(demand.placed(Placement(tp=tp)))), 1)
    named = "; ".join(str(place) for place in dict.fromkeys(legal)) or "nothing"
    return f"legal on {count} cards: {named}; on fewer: tp {lesser}"


def _weights(demand: Demand) -> Iterator[Problem]:
    for weights in (*demand.inventory.kinds, demand.inventory.ends):
        for name, located in weights.items():
            for problem in demand.cut.problems(located):
                yield Problem(rule=problem.rule, subject=name, expected=problem.expected, found=problem.found)


def _ranks(demand: Demand) -> Iterator[Problem]:
    place, experts, layers = demand.placement, demand.inventory.experts, len(demand.release.model.layers)
    if experts and (experts + place.redundant) % place.ep:
        whole = -(-experts // place.ep) * place.ep
        legal = ", ".join(str(degree) for degree in range(1, min(experts, 64) + 1) if experts % degree == 0)
        expected = f"ep one of {legal}; or {whole - experts} redundant experts, {whole} over {place.ep}"
        yield Problem(rule="experts", subject="routed experts", expected=expected, found=f"{experts + place.redundant} experts over ep {place.ep}")
    if place.stage % place.ep:
        expected = f"ep that divides tp · dp = {place.stage}"
        yield Problem(rule="experts", subject="ranks of experts", expected=expected, found=f"ep {place.ep}")
    if place.ep > 1 and not experts:
        yield Problem(rule="experts", subject="routed experts", expected="ep 1", found=f"ep {place.ep}, and the model has none")
    if place.tp % place.cp:
        yield Problem(rule="ranks", subject="ranks of tokens", expected=f"cp that divides tp {place.tp}", found=f"cp {place.cp}")
    if place.pp > layers:
        yield Problem(rule="ranks", subject="pipeline", expected=f"at most {layers} stages", found=f"pp {place.pp}")
    yield from _cards(place, demand.machine)


def _cards(place: Placement, machine: Machine) -> Iterator[Problem]:
    node = machine.cards_per_node
    if place.cards > machine.cards:
        yield Problem(rule="cards", subject="cards", expected=f"at most {machine.cards}", found=f"{place} is {place.cards}")
    if place.cards > node and place.cards % node:
        yield Problem(rule="nodes", subject="nodes", expected=f"whole nodes of {node} cards", found=f"{place.cards} cards")
    for name, degree in (("tp", place.tp), ("a stage", place.stage)):
        if place.cards > node and node % degree and degree % node:
            yield Problem(rule="nodes", subject="nodes", expected=f"{name} that divides {node} or whole nodes", found=f"{name} of {degree} cards")
    if machine.group and machine.group < place.tp < node:
        yield Problem(rule="nodes", subject="groups", expected=f"tp within groups of {machine.group} cards, or a node", found=f"tp {place.tp}")
