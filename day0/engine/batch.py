"""Continuous batching: every step carries one token of each running sequence and the next chunk of the prompts that are being read."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from day0.engine import footprint
from day0.engine.bind import Bound, Stopwatch, Wrap, chained
from day0.engine.model import Forward
from day0.engine.packed import Workspace
from day0.engine.release import Release
from day0.engine.ring import Ring
from day0.engine.sample import Choice, SamplerState, choose, score
from day0.engine.state import Sequence, State
from day0.engine.stream import TextStream
from day0.engine.vision import Vision, axes
from day0.engine.watch import emulation
from day0.engine.weights import open_weights
from day0.spec.errors import Day0Error
from day0.spec.progress import Progress, silent
from day0.spec.reports.map_ops import MapOpsReport
from day0.spec.reports.plan_memory import PlanMemoryReport
from day0.spec.request import Finish, Output, Request, TokenScore
from day0.spec.step import Step

if TYPE_CHECKING:
    from day0.engine.tokenizer import Tokenizer

SCORED_ROWS = 64  # rows of a prompt whose logits are held at a time


@dataclass
class Active:
    """A request that has state."""

    request: Request
    sequence: Sequence
    sampler: SamplerState
    stream: TextStream | None
    tokens: list[int]  # prompt and answer
    scores: list[TokenScore] = field(default_factory=list)  # of prompt tokens, when asked for

    @property
    def pending(self) -> int:
        """Tokens whose state is not computed yet."""
        return len(self.tokens) - self.sequence.length

    @property
    def generated(self) -> int:
        return len(self.tokens) - len(self.request.tokens)


class Engine:
    """A model that answers several requests at once. One thread drives it: `add` and `cancel` between calls of `step`."""

    def __init__(self, forward: Forward, state: State, plan: PlanMemoryReport, tokenizer: "Tokenizer | None" = None) -> None:
        self.forward, self.state, self.plan, self.tokenizer = forward, state, plan, tokenizer
        self.profile: dict[str, float] = {}  # operator → seconds, when started with profile=True
        self.ring = Ring()
        self._waiting: deque[Request] = deque()
        self._active: dict[str, Active] = {}
        self._cancelled: list[str] = []
        self._workspace = 0

    @classmethod
    def start(
        cls, release: Release, plan: PlanMemoryReport, mapped: MapOpsReport, tokenizer: "Tokenizer | None", device: torch.device,
        *, profile: bool = False, progress: Progress = silent, wraps: Iterable[Wrap] = (),
    ) -> "Engine":  # fmt: skip
        """Allocate exactly what the plan says and read the weights; `wraps` see every operator call."""
        release.require_complete()
        load = plan.workload
        workspace = Workspace(footprint.workspace(release, load.dtype, load.sees), device)
        watch, ring, emulated = Stopwatch() if profile else None, Ring(), emulation(mapped)
        bound = Bound(mapped.sites, workspace, chained(emulated.wrap if emulated else None, watch, ring, *wraps))
        sizes = {"pages": plan.state.pages, "page_size": load.page_size, "sequences": load.batch, "context": load.context}
        pools = footprint.state(release.model, load.dtype, chunk=load.chunk, **sizes)
        state = State(release.model.layers, pools, device=device, **sizes)
        weights = open_weights(release, load.dtype, load.weights, device, progress)
        vision = Vision(release, load, bound, device) if load.sees else None
        engine = cls(Forward(release.model, weights, bound, state, vision), state, plan, tokenizer)
        engine.forward.mode = emulated or engine.forward.mode
        engine._workspace, engine.ring = workspace.bytes, ring
        engine.profile = watch.seconds if watch else {}
        return engine

    @property
    def running(self) -> int:
        """Requests that have state."""
        return len(self._active)

    @property
    def waiting(self) -> int:
        """Requests that have none yet."""
        return len(self._waiting)

    @property
    def busy(self) -> bool:
        return bool(self._active or self._waiting or self._cancelled)

    @property
    def usage(self) -> float:
        """Share of state pages in use."""
        return self.state.usage

    @property
    def read(self) -> int:
        """Bytes of weights taken from files since the start."""
        return self.forward.weights.read

    def account(self) -> dict[str, int]:
        """Bytes allocated for weights, state and workspace; and what the plan keeps for the activations of a step."""
        held = {"weights": sum(self.forward.weights.bytes.values()), "state": self.state.bytes, "workspace": self._workspace}
        found = held | {"activations": self.plan.per_card[0].activations}
        vision = self.forward.vision
        if vision is not None:
            found["images"] = vision.capacity
            found["weights"] += vision.bytes
        return found

    def add(self, request: Request) -> None:
        """Queue a request; Day0Error when it can never run."""
        context, vocab = self.plan.workload.context, self.forward.model.vocab
        if not request.tokens:
            raise Day0Error("the prompt is empty", hint="give at least one token")
        if request.id in self._active or any(request.id == other.id for other in self._waiting):
            raise Day0Error(f"request {request.id!r} is already in flight")
        if len(request.tokens) + request.max_new > context:
            asked = f"{len(request.tokens)} prompt tokens and {request.max_new} new ones"
            raise Day0Error(f"{asked} are more than the planned context of {context}", hint="shorten it, or plan with a larger --context")
        if not all(0 <= token < vocab for token in request.tokens):
            raise Day0Error(f"a prompt token is outside the vocabulary of {vocab}", hint="does the tokenizer belong to this model?")
        if request.images:
            if self.forward.vision is None:
                raise Day0Error("this plan takes no images", hint="run `day0 plan-memory --with-vision` and `day0 map-ops` first")
            self.forward.vision.require(request.images)
        self._waiting.append(request)
        self.ring.add(request)

    def cancel(self, id: str) -> None:
        """End a request; the next step reports it as cancelled. Unknown and finished ids are ignored."""
        self._cancelled.append(id)

    def step(self) -> list[Output]:
        """One forward pass over everything in flight, and what it brought; [] when there is nothing to do."""
        outputs = list(self._end_cancelled())
        self._admit()
        decoding = [a for a in self._active.values() if a.pending == 1 and a.generated]
        reading = self._chunks([a for a in self._active.values() if not (a.pending == 1 and a.generated)])
        if not decoding and not reading:
            return outputs
        step, finished = self._plan_step(decoding, reading)
        self.ring.begin()
        hidden_OD = self.forward.hidden(step)
        hidden_OD = self._score_prompts(reading, hidden_OD, len(decoding))
        ready = decoding + finished
        if ready:
            logits_BW = self.forward.logits(hidden_OD)
            choosing = [b for b, a in enumerate(ready) if a.request.max_new > 0]
            logits_BW = logits_BW if len(choosing) == len(ready) else logits_BW[choosing]
            choices = choose(logits_BW, [ready[b].sampler for b in choosing])
            seeds = {ready[b].request.id: ready[b].sampler.seed for b in choosing}
            rows = torch.cat((step.outputs[: len(decoding)], step.outputs[len(step.outputs) - len(finished) :]))[choosing]
            self.ring.note([a.request.id for a in decoding + [a for a, _ in reading]], seeds, rows, logits_BW, choices)
            chosen = dict(zip(choosing, choices, strict=True))
            outputs += [self._advance(a, chosen.get(b)) for b, a in enumerate(ready)]
        return outputs

    def _end_cancelled(self) -> Iterable[Output]:
        cancelled, self._cancelled = set(self._cancelled), []
        for request in [r for r in self._waiting if r.id in cancelled]:
            self._waiting.remove(request)
            self.ring.end(request.id, "cancelled")
            yield Output(id=request.id, finish="cancelled")
        for id in cancelled & self._active.keys():
            yield self._end(self._active[id], Output(id=id, finish="cancelled"))

    def _admit(self) -> None:
        """Give state to waiting requests, first come first served, as long as there is room for all that each may need."""
        while self._waiting:
            request = self._waiting[0]
            parent, shared = self._common_prefix(request)
            sequence = self.state.admit(len(request.tokens) + request.max_new, parent, shared)
            if sequence is None:
                return
            self._waiting.popleft()
            if request.images and self.forward.vision is not None:
                sequence.axes_3S = axes(len(request.tokens), request.images, self.forward.vision.encoder.merge)
            stream = TextStream(self.tokenizer, request.stop, request.tokens) if self.tokenizer else None
            self._active[request.id] = Active(request, sequence, SamplerState(request), stream, list(request.tokens))

    def _common_prefix(self, request: Request) -> tuple[Sequence | None, int]:
        """The sequence in flight that shares most computed tokens with a prompt, and how many; at least one token is left to compute."""
        best: tuple[Sequence | None, int] = (None, 0)
        if request.prompt_logprobs:
            return best
        for active in self._active.values():
            limit = min(active.sequence.length, len(request.tokens) - 1, _alike(active.request, request))
            same = next((i for i in range(limit) if active.tokens[i] != request.tokens[i]), limit)
            if same > best[1]:
                best = (active.sequence, same)
        return best

    def _chunks(self, reading: list[Active]) -> list[tuple[Active, int]]:
        """How many prompt tokens each sequence reads in this step: in order of arrival, up to the planned chunk."""
        budget, chunks = self.plan.workload.chunk, []
        for active in reading:
            count = min(active.pending, budget)
            if count:
                chunks.append((active, count))
                budget -= count
        return chunks

    def _plan_step(self, decoding: list[Active], reading: list[tuple[Active, int]]) -> tuple[Step, list[Active]]:
        """The step, and the sequences whose prompt ends in it. Rows with logits: decoding ones, scored prompts, ends of prompts."""
        rows, start = list(range(len(decoding))), len(decoding)
        scored: list[int] = []
        ends: list[int] = []
        finished: list[Active] = []
        for active, count in reading:
            if active.request.prompt_logprobs:
                scored += range(start, start + count)
            start += count
            if count == active.pending:
                ends.append(start - 1)
                finished.append(active)
        news = [(a.sequence, a.tokens[a.sequence.length : a.sequence.length + count]) for a, count in reading]
        vision = self.forward.vision
        chunks = [(a.sequence.length, count, a.request.images) for a, count in reading]
        images = vision.images(len(decoding), chunks) if vision else None
        decode = self.state.segment("decode", [(a.sequence, a.tokens[-1:]) for a in decoding]) if decoding else None
        prefill = self.state.segment("prefill", news) if news else None
        outputs = torch.tensor(rows + scored + ends, dtype=torch.int64, device=self.state.device)
        return Step(decode=decode, prefill=prefill, outputs=outputs, images=images), finished

    def _score_prompts(self, reading: list[tuple[Active, int]], hidden_OD: Tensor, start: int) -> Tensor:
        """Log-probabilities of the prompt tokens that follow each scored row; returns the rows of the others."""
        first = start
        for active, count in reading:
            if not active.request.prompt_logprobs:
                continue
            place = active.sequence.length - count
            follow = active.tokens[place + 1 : place + count + 1]
            wanted = active.request.sampling.logprobs or 0
            for at in range(0, len(follow), SCORED_ROWS):
                tokens = follow[at : at + SCORED_ROWS]
                logits_NW = self.forward.logits(hidden_OD[start + at : start + at + len(tokens)])
                active.scores += score(logits_NW, tokens, [wanted] * len(tokens))
            start += count
        return hidden_OD if start == first else torch.cat((hidden_OD[:first], hidden_OD[start:]))

    def _advance(self, active: Active, choice: Choice | None) -> Output:
        """Take the chosen token, or end the request."""
        request, scores = active.request, tuple(active.scores)
        active.scores = []
        if choice is None:
            return self._end(active, Output(id=request.id, prompt_scores=scores, finish="length"))
        if choice.error:
            return self._end(active, Output(id=request.id, prompt_scores=scores, finish="error", error=choice.error))
        active.tokens.append(choice.token)
        ended = choice.token in request.stop_tokens
        text = "" if ended or active.stream is None else active.stream.push([choice.token])
        finish: Finish | None = None
        if ended or (active.stream is not None and active.stream.stopped):
            finish = "stop"
        elif active.generated >= request.max_new:
            finish = "length"
        if finish and active.stream is not None:
            text += active.stream.finish()
        output = Output(
            id=request.id, tokens=(choice.token,), text=text, scores=(choice.score,) if choice.score else (), prompt_scores=scores,
            finish=finish,
        )  # fmt: skip
        return self._end(active, output) if finish else output

    def _end(self, active: Active, output: Output) -> Output:
        self.state.free(active.sequence)
        del self._active[active.request.id]
        self.ring.end(output.id, output.finish, output.error)
        return output


def _alike(one: Request, other: Request) -> int:
    """Position up to which the images of two prompts are the same: other images may hide behind the same tokens."""
    limit = max(len(one.tokens), len(other.tokens))
    for mine, theirs in zip_longest(one.images, other.images):
        if mine is None or theirs is None or (mine.start, mine.picture.digest) != (theirs.start, theirs.picture.digest):
            return min([limit, *(placed.start for placed in (mine, theirs) if placed is not None)])
    return limit
