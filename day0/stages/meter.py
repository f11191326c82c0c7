"""Times and memory of a run, as the steps go by."""

import time
from collections.abc import Sequence
from statistics import quantiles

from day0.spec.registry import backends
from day0.spec.reports.run import Memory, OperatorTime, Times
from day0.spec.request import Output, Request
from day0.stages.opening import Opened


class Meter:
    """Watches the steps of one or several batches."""

    def __init__(self, opened: Opened) -> None:
        self.opened = opened
        self.first: float | None = None  # seconds to the first token of the first batch
        self.total = 0.0  # seconds between question and last answer, over all batches
        self._waiting: set[str] = set()  # requests without a token yet
        self._asked = 0.0
        self._prompt_tokens = self._decoded = 0
        self._prefill = 0.0  # seconds until every answer had begun
        self._decode: list[float] = []  # seconds of each step that only decoded
        self._steps = 0.0  # seconds of all steps
        self._read, self._count = opened.engine.read, 0  # bytes taken from files before the first step; steps

    def begin(self, requests: Sequence[Request]) -> None:
        """A batch was asked."""
        self._asked = time.perf_counter()
        self._waiting = {request.id for request in requests}
        self._prompt_tokens += sum(len(request.tokens) for request in requests)

    def step(self, seconds: float, outputs: Sequence[Output]) -> None:
        """One step was made."""
        self._steps += seconds
        self._count += 1
        if self._waiting:
            self._prefill += seconds
            self._waiting -= {output.id for output in outputs if output.tokens or output.finish}
            if self.first is None and any(output.tokens for output in outputs):
                self.first = time.perf_counter() - self._asked
        else:
            self._decode.append(seconds)
            self._decoded += sum(len(output.tokens) for output in outputs)

    def end(self) -> None:
        """The batch was answered."""
        self.total += time.perf_counter() - self._asked

    def times(self) -> Times:
        """What the watch showed."""
        steps = sorted(self._decode)
        cuts = quantiles(steps, n=20, method="inclusive") if len(steps) > 1 else steps * 19
        decoding = sum(steps)
        return Times(
            load=self.opened.seconds,
            first_token=self.first,
            prefill=self._prompt_tokens / self._prefill if self._prefill else None,
            decode_p50=cuts[9] if steps else None,
            decode_p95=cuts[18] if steps else None,
            decode=self._decoded / decoding if decoding else None,
            total=self.total,
        )

    def memory(self) -> Memory:
        """What the process, the device and the engine say now."""
        opened, opening = self.opened, self.opened.opening
        peak = backends().get("cpu").memory(None)["peak"]
        device = None if opening.backend_name == "cpu" else opening.backend.memory(opening.device)["peak"]
        read = (opened.engine.read - self._read) // self._count if self._count else None
        return Memory(process_before=opened.before, process_peak=peak, device_peak=device, engine=dict(opened.engine.account()), read=read)

    def operators(self) -> list[OperatorTime]:
        """Time by operator, longest first; what no operator accounts for is `other`."""
        spent = dict(self.opened.engine.profile or {})
        if not spent or not self._steps:
            return []
        spent["other"] = max(0.0, self._steps - sum(spent.values()))
        rows = sorted(spent.items(), key=lambda row: -row[1])
        return [OperatorTime(op=op, seconds=seconds, share=seconds / self._steps) for op, seconds in rows]
