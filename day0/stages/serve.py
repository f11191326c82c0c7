"""`day0 serve`: an OpenAI-compatible service on a planned and mapped model.

Obeys plan-memory.yaml and map-ops.yaml. Leaves serve.yaml, once when it is ready and once when it ends.
Exit codes of the command: 0 it served until it was interrupted; 1 the engine failed; 2 it could not start (port in use, broken model).
"""

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import quantiles

from day0.engine.text import Tokenizer
from day0.serve.app import create_app
from day0.serve.listen import Server, bind, url
from day0.serve.metrics import Metrics
from day0.serve.runner import Engine, Runner
from day0.serve.service import fingerprint
from day0.serve.settings import Settings
from day0.spec.errors import Day0Error
from day0.spec.progress import Progress, silent
from day0.spec.record import record
from day0.spec.reports.run import SamplingRow
from day0.spec.reports.serve import End, Latency, Limits, Requests, ServeReport
from day0.stages.incident import Incidents
from day0.stages.meter import Meter
from day0.stages.opening import Opened, Planned


@record
class Wanted:
    """How a service is set up."""

    host: str = "127.0.0.1"  #: address to listen on
    port: int = 8000  #: to listen on; 0 takes a free one
    name: str | None = None  #: that clients ask for; the release's own when None
    api_keys: tuple[str, ...] = ()  #: any of them opens the service; none leaves it open
    max_requests: int = 512  #: sequences that run or wait
    patience: int = 30  #: seconds that answers have to end once the service is interrupted
    incidents: Incidents | None = None  #: where failed requests are recorded; None: nowhere


@dataclass(kw_only=True)
class Serving:
    """A service that listens; it is ready once `opened` is there."""

    opening: Planned
    settings: Settings
    runner: Runner
    server: Server
    url: str
    opened: Opened | None = None
    since: float = 0.0

    def stop(self) -> None:
        """End when all that is in flight is answered."""
        self.server.stop()

    def report(self) -> ServeReport:
        """What there is to say now."""
        assert self.opened is not None
        opening, settings, metrics, failure = self.opening, self.settings, self.runner.metrics, self.runner.failure
        return ServeReport(
            verdict="failed" if failure else "serves",
            failure=f"{type(failure).__name__}: {failure}" if failure else "",
            model=settings.model,
            machine=opening.machine,
            executor=opening.executor,
            device=str(opening.device),
            dtype=opening.dtype,
            weights=opening.weights,
            url=self.url,
            fingerprint=settings.fingerprint,
            guarded=bool(settings.api_keys),
            limits=Limits(
                context=settings.context, batch=opening.plan.workload.batch, requests=self.runner.max_requests, body=settings.max_body
            ),
            ends=_ends(opening.tokenizer),
            defaults=_defaults(opening.tokenizer),
            load=self.opened.seconds,
            uptime=time.monotonic() - self.since,
            requests=Requests(**{why: metrics.ends[why] for why in Requests.model_fields}),
            rejected=metrics.rejected,
            prompt_tokens=metrics.read,
            generated_tokens=metrics.generated,
            first_token=_latency(metrics.first),
            answer=_latency(metrics.whole),
            memory=Meter(self.opened).memory(),
        )


def serve(opening: Planned, wanted: Wanted, ready: Callable[[Serving], None], progress: Progress = silent) -> ServeReport:
    """Serve until interrupted, or until `Serving.stop`. Once ready, `ready` is called on the engine's thread, which it must not hold up.

    The address is taken first, so that what holds it is known before weights are read; until they are, /health says how far it is.
    """
    sock = bind(wanted.host, wanted.port)
    try:
        serving = _serving(opening, wanted, url(sock), ready, progress)
        serving.server.run(sockets=[sock])
    finally:
        sock.close()
    serving.runner.close()
    if serving.opened is None:
        raise serving.runner.failure or Day0Error("interrupted before the model was loaded")
    return serving.report()


def _serving(opening: Planned, wanted: Wanted, address: str, ready: Callable[[Serving], None], progress: Progress) -> Serving:
    """The service's parts, put together."""
    plan = hashlib.sha256((opening.plan.to_yaml() + opening.mapped.to_yaml()).encode()).hexdigest()
    settings = Settings(
        model=wanted.name or opening.model,
        context=opening.context,
        vocab=opening.release.model.vocab,
        fingerprint=fingerprint(plan),
        api_keys=wanted.api_keys,
    )

    def start(hear: Progress) -> Engine:
        def tell(what: str, done: int, total: int) -> None:
            hear(what, done, total)
            progress(what, done, total)

        serving.opened = opening.start(progress=tell, incidents=wanted.incidents)
        return serving.opened.engine  # type: ignore[return-value]

    def change(state: str) -> None:
        serving.since = time.monotonic()
        try:
            if state == "ready":
                ready(serving)
        except Exception:
            serving.stop()
            raise
        if serving.opened is None:
            serving.stop()

    runner = Runner(start, Metrics(settings.model), max_requests=wanted.max_requests)
    server = Server(create_app(runner, opening.tokenizer, settings, opening.eye), runner, wanted.patience)
    serving = Serving(opening=opening, settings=settings, runner=runner, server=server, url=address)
    runner.changed = change
    return serving


def _ends(tokenizer: Tokenizer) -> list[End]:
    found = tokenizer.generation.eos
    return [End(token=token, text=tokenizer.decode([token], special=True), source=source) for token, source in sorted(found.items())]


def _defaults(tokenizer: Tokenizer) -> SamplingRow:
    sampling = tokenizer.generation.sampling
    return SamplingRow.model_validate({name: getattr(sampling, name) for name in SamplingRow.model_fields})


def _latency(seconds: Sequence[float]) -> Latency:
    times = list(seconds)
    cuts = quantiles(times, n=20, method="inclusive") if len(times) > 1 else times * 19
    return Latency(p50=cuts[9] if times else None, p95=cuts[18] if times else None)
