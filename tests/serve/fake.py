"""An engine of which every token is known beforehand, and a service around it."""

import time

from day0.engine.text import TextStream
from day0.serve.app import create_app
from day0.serve.metrics import Metrics
from day0.serve.runner import Runner
from day0.serve.settings import Settings
from day0.spec.errors import Day0Error
from day0.spec.request import Output, TokenScore

CONTEXT, VOCAB = 64, 286


class Fake:
    """Repeats each prompt without end: token i of the answer is token i (modulo its length) of the prompt.

    The switches are what a test sets: `pace` seconds a step, `explode` raises in the step after so many, `poison` fails one request.
    """

    def __init__(self, tokenizer):
        self.tokenizer, self.active, self.cancelled, self.steps = tokenizer, {}, [], 0
        self.pace, self.explode, self.poison, self.usage, self.waiting = 0.0, None, None, 0.5, 0

    @property
    def running(self):
        return len(self.active)

    @property
    def busy(self):
        return bool(self.active)

    def account(self):
        return {"weights": 1}

    def add(self, request):
        assert request.id not in self.active
        if len(request.tokens) + request.max_new > CONTEXT:
            raise Day0Error("longer than the plan")
        self.active[request.id] = (request, TextStream(self.tokenizer, request.stop, request.tokens), [])

    def cancel(self, id):
        del self.active[id]
        self.cancelled.append(id)

    def step(self):
        time.sleep(self.pace)
        self.steps += 1
        if self.explode is not None and self.steps > self.explode:
            raise RuntimeError("a kernel failed at 0xdeadbeef")
        outputs = [self._advance(*entry) for entry in list(self.active.values())]
        for output in outputs:
            if output.finish:
                del self.active[output.id]
        return outputs

    def _advance(self, request, stream, made):
        prompt_scores = ()
        if request.prompt_logprobs and not made:
            prompt_scores = tuple(self._score(token, request) for token in request.tokens[1:])
        if request.max_new == 0:
            return Output(id=request.id, prompt_scores=prompt_scores, finish="length")
        token = request.tokens[len(made) % len(request.tokens)]
        if self.poison == token:
            return Output(id=request.id, finish="error", error="the model computed logits that are not finite")
        made.append(token)
        ended = token in request.stop_tokens and len(made) > request.min_new
        text = "" if ended else stream.push([token])
        finish = "stop" if ended or stream.stopped else "length" if len(made) >= request.max_new else None
        scores = () if request.sampling.logprobs is None else (self._score(token, request),)
        text += stream.finish() if finish else ""
        return Output(id=request.id, tokens=(token,), text=text, scores=scores, prompt_scores=prompt_scores, finish=finish)

    def _score(self, token, request):
        best = [(token, -0.5), (token ^ 1, -1.5), (token ^ 2, float("-inf"))]
        return TokenScore(token=token, logprob=-0.5, top=tuple(best[: request.sampling.logprobs]))


def service(tokenizer, start=None, *, max_requests=32, **settings):
    """(application, runner, engine); `start` replaces how the engine starts."""
    engine = Fake(tokenizer)
    runner = Runner(start or (lambda progress: engine), Metrics("fake"), max_requests=max_requests)
    given = Settings(model="fake", context=CONTEXT, vocab=VOCAB, fingerprint="day0-0-abcd1234", **settings)
    return create_app(runner, tokenizer, given), runner, engine
