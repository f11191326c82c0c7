"""The service of `day0 adapt`: started on a free port, asked what `run` was asked, over HTTP, and stopped."""

import json
import urllib.error
import urllib.request
from threading import Thread
from typing import Any

from day0.spec.progress import Progress
from day0.spec.reports.run import RunReport
from day0.spec.reports.serve import ServeReport
from day0.stages.chain import Chain
from day0.stages.opening import Planned, open_chain
from day0.stages.serve import Serving, Wanted, serve

PATIENCE = 600.0  # seconds that one answer may take


def rehearse(chain: Chain, question: str, max_new: int, progress: Progress) -> ServeReport:
    """Serve one greedy answer; the verdict is `failed` unless it is the one that `run` gave."""
    opening = open_chain(chain, "native")
    assert isinstance(opening, Planned)
    heard: list[str] = []

    def ask(serving: Serving) -> None:
        try:
            heard.append(_answer(serving, question, max_new))
        except (OSError, ValueError, KeyError) as error:
            heard.append(f"[{error}]")
        finally:
            serving.stop()

    report = serve(opening, Wanted(port=0), lambda serving: Thread(target=ask, args=(serving,)).start(), progress)
    expected = chain.read(RunReport).answers[0].text
    if report.failure or heard == [expected]:
        return report
    return report.model_copy(update={"verdict": "failed", "failure": f"asked over HTTP it said {heard}, and in `day0 run` {expected!r}"})


def _answer(serving: Serving, question: str, max_new: int) -> str:
    chat = bool(serving.opening.tokenizer.template.sources)
    body: dict[str, Any] = {"model": serving.settings.model, "temperature": 0, "max_tokens": max_new}
    body |= {"messages": [{"role": "user", "content": question}]} if chat else {"prompt": question}
    url = f"{serving.url}/v1/{'chat/completions' if chat else 'completions'}"
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the service is on this machine
    try:
        with direct.open(request, timeout=PATIENCE) as response:
            choice = json.load(response)["choices"][0]
    except urllib.error.HTTPError as error:
        raise ValueError(f"{error.code}: {error.read(2000).decode(errors='replace')}") from error
    text: str = choice["message"]["content"] if chat else choice["text"]
    return text
