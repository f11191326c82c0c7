"""The rung of the service: what the engine answers, asked over HTTP, by one client alone and by many at once."""

import json
import math
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Thread
from typing import Any

from day0.engine.heap import return_freed_memory
from day0.serve.service import piece
from day0.spec.evidence import Evidence, Uncompared
from day0.spec.ops import ROUNDOFF
from day0.spec.progress import Progress, silent
from day0.spec.request import Request, Sampling
from day0.spec.whole_evidence import ServiceEvidence
from day0.stages.opening import Planned
from day0.stages.serve import Serving, Wanted, serve
from day0.stages.trace_diff import explained

LENGTHS = (3, 9, 17, 33)  # tokens of the prompts
NEW = 16  # tokens of an answer
COPIES = 3  # times that each prompt is asked at once
PATIENCE = 600.0  # seconds that one answer may take
Memo = Callable[[str, Callable[[], Any]], Any]
Scored = list[Any]  # a token, and the log-probabilities of the best two where it stands
Said = dict[str, Any]  # a choice of the service's answer, or what went wrong under "error"


def compare_service(
    opening: Planned, ids: Sequence[int], progress: Progress = silent, memo: Memo = lambda _key, compute: compute()
) -> Iterator[Evidence]:  # fmt: skip
    """Evidence for each answer of the service; the engine is asked first, by itself. `memo` (a name, what asks) may know answers already."""
    room = opening.context - NEW
    prompts = [list(ids[:length]) for length in LENGTHS if length <= min(room, len(ids))]
    if not prompts:
        why = f"a context of {opening.context} tokens has no room for a prompt and {NEW} more"
        yield Uncompared(layer=None, part="service", rung="service", what="answers over HTTP", why=why)
        return
    progress("service", 0, 3)
    right = memo("service: the engine alone", lambda: _asked(opening, prompts))
    return_freed_memory()
    heard = memo("service: answers", lambda: _heard(opening, prompts, progress))
    limit, named = explained(ROUNDOFF[opening.dtype]), partial(piece, opening.tokenizer)
    for way, answers in heard.items():
        for place, answer in enumerate(answers):
            yield _evidence(way == "alone", prompts[place % len(prompts)], right[place % len(prompts)], answer, named, limit)
    progress("service", 3, 3)


def _heard(opening: Planned, prompts: Sequence[list[int]], progress: Progress) -> dict[str, list[Said]]:
    """What the service says to one client after the other, and to many at once."""
    heard: dict[str, list[Said]] = {}

    def ask(serving: Serving) -> None:
        try:
            progress("service", 1, 3)
            heard["alone"] = [_ask(serving, prompt) for prompt in prompts]
            progress("service", 2, 3)
            with ThreadPoolExecutor(COPIES * len(prompts)) as clients:
                heard["under load"] = list(clients.map(lambda prompt: _ask(serving, prompt), [*prompts] * COPIES))
        finally:
            serving.stop()

    serve(opening, Wanted(port=0), lambda serving: Thread(target=ask, args=(serving,)).start())
    return heard


def _asked(opening: Planned, prompts: Sequence[list[int]]) -> list[list[Scored]]:
    """What the engine says when it is asked one thing at a time: each token, with the log-probabilities of the best two."""
    engine, found = opening.start().engine, []
    for prompt in prompts:
        engine.add(Request(id="0", tokens=tuple(prompt), max_new=NEW, sampling=Sampling(logprobs=2)))
        scores: list[Scored] = []
        while engine.busy:
            for output in engine.step():
                scores += [[score.token, [value for _, value in score.top[:2]]] for score in output.scores]
        found.append(scores)
    return found


def _ask(serving: Serving, prompt: list[int]) -> Said:
    body = {
        "model": serving.settings.model, "prompt": prompt, "max_tokens": NEW, "temperature": 0, "repetition_penalty": 1, "logprobs": 2,
        "ignore_eos": True,
    }  # fmt: skip
    request = urllib.request.Request(f"{serving.url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the service is on this machine
    try:
        with direct.open(request, timeout=PATIENCE) as response:
            choice: Said = json.load(response)["choices"][0]
            return choice
    except urllib.error.HTTPError as error:
        return {"error": f"{error.code}: {error.read(500).decode(errors='replace')}"}
    except (OSError, ValueError, KeyError) as error:
        return {"error": f"{type(error).__name__}: {error}"}


def _evidence(
    alone: bool, prompt: list[int], right: Sequence[Scored], said: Said, named: Callable[[int], str], limit: float
) -> ServiceEvidence:  # fmt: skip
    """One answer next to the engine's: where they part, and how near the best two tokens were there."""
    words = [named(token) for token, _ in right]
    given = said.get("logprobs", {}).get("tokens", [])
    same = next((i for i, (a, b) in enumerate(zip(words, given, strict=False)) if a != b), min(len(words), len(given)))
    margin = None
    if same < len(words) and same < len(given):
        top = right[same][1]
        margin = top[0] - top[1] if len(top) == 2 and math.isfinite(top[1]) else None
        limit *= max(1.0, *(abs(value) for value in top)) if margin is not None else 1.0
    return ServiceEvidence(
        layer=None, part="service", alone=alone, prompt=len(prompt), tokens=len(words), given=len(given), same=same, margin=margin,
        explained=limit, failure=said.get("error", ""),
    )  # fmt: skip
