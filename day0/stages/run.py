"""`day0 run`: prompts in, tokens out, with times, memory and the time of each operator.

Obeys plan-memory.yaml and map-ops.yaml. Leaves run.yaml.
Exit codes of the command: 0 every prompt was answered; 1 an answer failed; 2 it could not run (empty prompt, prompt beyond the plan).
"""

import time
from collections.abc import Callable, Iterable, Sequence

from day0.spec.errors import Day0Error
from day0.spec.reports.run import Answer, RunReport, SamplingRow
from day0.spec.request import Output, Request, Sampling
from day0.stages.meter import Meter
from day0.stages.opening import Opened
from day0.stages.prompt import EXAMPLE, Prompt

Listener = Callable[[int, Output], None]  # (place in the batch, news)


def run(opened: Opened, batches: Iterable[Sequence[Prompt]], sampling: Sampling, stop: Sequence[str], hear: Listener) -> RunReport:
    """Answer the prompts of each batch together, one batch after the other; `hear` is told as it happens."""
    meter = Meter(opened)
    answers = [answer for prompts in batches for answer in _answer(opened, prompts, sampling, stop, hear, meter)]
    if not answers:
        raise Day0Error("nothing was asked", hint=EXAMPLE)
    opening = opened.opening
    return RunReport(
        verdict="failed" if any(answer.finish == "error" for answer in answers) else "answered",
        model=opening.model,
        machine=opening.machine,
        executor=opening.executor,
        device=str(opening.device),
        dtype=opening.dtype,
        weights=opening.weights,
        sampling=SamplingRow.model_validate({name: getattr(sampling, name) for name in SamplingRow.model_fields}),
        answers=answers,
        times=meter.times(),
        memory=meter.memory(),
        operators=meter.operators(),
    )


def _answer(
    opened: Opened, prompts: Sequence[Prompt], sampling: Sampling, stop: Sequence[str], hear: Listener, meter: Meter
) -> list[Answer]:  # fmt: skip
    """Answer prompts as one batch."""
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
