"""The last requests of an engine, with all that is needed to answer them again: a ring that never grows."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from day0.engine.bind import Function, Place
from day0.engine.sample import Choice
from day0.spec.request import Finish, Request

REQUESTS = 64  # that are remembered
TOKENS = 256  # of each request, whose circumstances are remembered
BEST = 5  # logits of each token


@dataclass(frozen=True)
class Chosen:
    """One token and the circumstances of its choice."""

    place: int  # in the answer
    step: int  # forward pass of the engine
    top: list[tuple[int, float]]  # best tokens with their logits, before sampling
    batch: list[int]  # serial numbers of the requests in that pass
    experts: list[list[int]]  # of the token's last position, for each sparse layer in order


@dataclass
class Entry:
    """One request."""

    serial: int
    request: Request
    arrived: int  # passes made before it came
    seed: int | None = None  # of its sampler; None before its first token
    tokens: list[int] = field(default_factory=list)
    chosen: deque[Chosen] = field(default_factory=lambda: deque(maxlen=TOKENS))
    finish: Finish | None = None
    error: str = ""
    until: int | None = None  # passes made when it ended


class Ring:
    """Remembers requests; also a wrap of bound functions, which sees what routers choose."""

    def __init__(self, size: int = REQUESTS) -> None:
        self.steps = 0  # forward passes so far
        self.entries: deque[Entry] = deque(maxlen=size)
        self._routes: list[Tensor] = []
        self._live: dict[str, Entry] = {}
        self._serial = 0

    def __call__(self, _place: Place, op: str, function: Function) -> Function:
        if op != "route":
            return function

        def routed(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            self._routes.append(result[1])
            return result

        return routed

    def add(self, request: Request) -> None:
        """A request came."""
        entry = Entry(serial=self._serial, request=request, arrived=self.steps)
        self._serial += 1
        self._live[request.id] = entry
        self.entries.append(entry)

    def begin(self) -> None:
        """A pass begins."""
        self.steps += 1
        self._routes = []

    def note(self, members: Sequence[str], seeds: dict[str, int], rows: Tensor, logits_BW: Tensor, choices: Sequence[Choice]) -> None:
        """A pass over `members` is done; those of `seeds`, in order, chose tokens from `logits_BW`, whose rows of the pass are `rows`."""
        batch = [self._live[id].serial for id in members]
        if not seeds:
            return
        best = logits_BW.topk(min(BEST, logits_BW.shape[1]))
        experts = self._experts(rows)
        found = zip(seeds.items(), best.indices.tolist(), best.values.tolist(), choices, strict=True)
        for row, ((id, seed), ids, values, choice) in enumerate(found):
            entry = self._live[id]
            entry.seed = seed
            top = list(zip(ids, values, strict=True))
            entry.chosen.append(Chosen(place=len(entry.tokens), step=self.steps, top=top, batch=batch, experts=experts[row]))
            if choice.token >= 0:
                entry.tokens.append(choice.token)

    def _experts(self, rows: Tensor) -> list[list[list[int]]]:
        """Of each row, the choice of every router in order; read from the device at once."""
        if not self._routes:
            return [[] for _ in rows]
        widths = [route.shape[1] for route in self._routes]
        joined = torch.cat([route[rows] for route in self._routes], dim=1).tolist()
        starts = [sum(widths[:place]) for place in range(len(widths))]
        return [[row[start : start + width] for start, width in zip(starts, widths, strict=True)] for row in joined]

    def end(self, id: str, finish: Finish | None, error: str = "") -> None:
        """A request ended."""
        entry = self._live.pop(id)
        entry.finish, entry.error, entry.until = finish, error, self.steps

    def find(self, id: str) -> Entry | None:
        """The latest request of that name."""
        return next((entry for entry in reversed(self.entries) if entry.request.id == id), None)

    def around(self, entry: Entry) -> list[Entry]:
        """It and those that were in flight with it, or with one of these, as far as they are remembered; in order of arrival."""
        group, reach = {entry.serial: entry}, deque([entry])
        while reach:
            one = reach.popleft()
            for other in self.entries:
                if other.serial not in group and other.arrived < self._until(one) and one.arrived < self._until(other):
                    group[other.serial] = other
                    reach.append(other)
        return [group[serial] for serial in sorted(group)]

    def _until(self, entry: Entry) -> int:
        """Passes made when it ended, or until now."""
        return self.steps + 1 if entry.until is None else entry.until
