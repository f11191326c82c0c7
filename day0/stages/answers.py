"""Prompts answered as one batch, by the engine or by the community's code."""

import time
from collections.abc import Callable, Sequence

from day0.spec.reports.run import Answer
from day0.spec.request import Output, Request, Sampling
from day0.stages.meter import Meter
from day0.stages.opening import Opened
from day0.stages.prompt import Prompt

Listener = Callable[[int, Output], None]  # (place in the batch, news)


def answer(opened: Opened, prompts: Sequence[Prompt], sampling: Sampling, stop: Sequence[str], hear: Listener, meter: Meter) -> list[Answer]:
    """Answers in the order of the prompts; `hear` is told as it happens."""
    ends, answers, requests = opened.opening.tokenizer.eos, {}, []
    for place, prompt in enumerate(prompts):
        id = str(place)
        requests.append(
            Request(
                id=id, tokens=prompt.tokens, max_new=prompt.max_new, sampling=sampling, stop=tuple(stop), stop_tokens=ends, images=prompt.images
            )
        )  # fmt: skip
        answers[id] = Answer(prompt=prompt.text, chat=prompt.chat, prompt_tokens=list(prompt.tokens), tokens=[], text="", finish="error")
    for request in requests:
        opened.engine.add(request)
    meter.begin(requests)
    while opened.engine.busy:
        start = time.perf_counter()
        outputs = opened.engine.step()
        meter.step(time.perf_counter() - start, outputs)
        for output in outputs:
            _append(answers[output.id], output)
            hear(int(output.id), output)
    meter.end()
    return list(answers.values())


def _append(answer: Answer, output: Output) -> None:
    answer.tokens += output.tokens
    answer.text += output.text
    answer.finish, answer.error = output.finish or answer.finish, output.error or answer.error
