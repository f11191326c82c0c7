"""A server whose computation breaks leaves a bundle of the request; replaying it says what it was."""

import threading
from contextlib import contextmanager

import httpx
import pytest

from day0.spec.reports.incident import IncidentReport
from day0.spec.workload import Workload
from day0.stages.incident import Incidents
from day0.stages.inspect import inspect
from day0.stages.machines import find_machine
from day0.stages.map_ops import map_ops
from day0.stages.opening import planned
from day0.stages.serve import Wanted, serve
from tests.cli.conftest import day0
from tests.cli.test_replay import leak, wrong
from tests.plans import quick_plan
from tests.serve.live import PATIENCE
from tests.zoo import checkpoint

__all__ = ["day0"]
HELLO = [{"role": "user", "content": "Where is the other one?"}]


@contextmanager
def running(folder, every=False):
    """The address of a server that keeps incidents in `folder`, and what it tells of them."""
    release, machine = checkpoint("qwen3_moe"), find_machine(None)
    inspected = inspect(release)
    plan = quick_plan(inspected, machine, Workload(context=64, batch=4, dtype="float32"))
    opening = planned(plan, map_ops(inspected, plan, machine))
    told, found, event = [], [], threading.Event()

    def ready(serving):
        found.append(serving)
        event.set()

    wanted = Wanted(port=0, name="zoo", incidents=Incidents(folder=folder, every=every, tell=told.append))
    thread = threading.Thread(target=serve, args=(opening, wanted, ready), daemon=True)
    thread.start()
    assert event.wait(PATIENCE)
    try:
        yield found[0].url, told
    finally:
        found[0].stop()
        thread.join(PATIENCE)


def ask(url, text="Where is the other one?", client=httpx, **more):
    body = {"model": "zoo", "messages": [{"role": "user", "content": text}], "max_tokens": 6, "temperature": 0, **more}
    return client.post(f"{url}/v1/chat/completions", json=body, timeout=PATIENCE)


def test_a_fault_while_serving_is_recorded_and_located(day0, tmp_path):
    """Experts give NaN from some request on: it fails, the next one is answered once the fault is gone, and both verdicts are right."""
    broken = False
    with wrong("experts", lambda y: y * float("nan") if broken else y):
        with running(tmp_path / "kept") as (url, told):
            assert ask(url).status_code == 200
            assert not list(tmp_path.rglob("incident-*.yaml")) and not told
            broken = True
            assert ask(url).status_code == 500
            broken = False
            assert ask(url).status_code == 200
        (bundle,) = tmp_path.rglob("incident-*.yaml")
        assert len(told) == 1 and f"day0 replay {bundle}" in told[0]
        kept = IncidentReport.read(bundle)
        assert next(row for row in kept.requests if row.serial == kept.subject).finish == "error"
        broken = True
        done = day0("replay", bundle, "--json")
    assert done.code == 1 and done.json["verdict"] == "numeric fault"
    assert done.json["fault"] == {"layer": 0, "place": "ffn", "phase": "prefill", "op": "experts", "given": False}
    done = day0("replay", bundle, "--json")
    assert done.code == 1 and done.json["verdict"] == "not reproduced"


def test_a_step_that_raises_is_recorded_too(day0, tmp_path):
    """The engine itself fails: whoever asked gets an error, and the bundle names the exception."""
    broken = False

    def raising(y):
        if broken:
            raise RuntimeError("a kernel failed")
        return y

    with wrong("experts", raising):
        with running(tmp_path / "kept") as (url, told):
            broken = True
            assert ask(url).status_code >= 500
        (bundle,) = tmp_path.rglob("incident-*.yaml")
        again = day0("replay", bundle, "--json")
    assert IncidentReport.read(bundle).reason == "the engine failed: RuntimeError: a kernel failed" and told
    assert again.code == 1 and again.json["line"] == "engine failure: RuntimeError: a kernel failed"
    assert day0("replay", bundle, "--json").json["verdict"] == "not reproduced"


@pytest.mark.parametrize("fault", [True, False])
def test_answers_of_a_server_that_depend_on_the_company(day0, tmp_path, fault):
    """Asked at once, two clients get each other's numbers; the bundle holds both requests."""
    from concurrent.futures import ThreadPoolExecutor

    texts = ("Where is it?", "and then? Tell me.")
    with wrong("paged_attention", leak if fault else lambda y: y):
        with running(tmp_path / "kept", every=True) as (url, _), httpx.Client() as client, ThreadPoolExecutor(len(texts)) as clients:
            together = threading.Barrier(len(texts))
            said = list(clients.map(lambda text: together.wait() >= 0 and ask(url, text, client, max_tokens=40, ignore_eos=True), texts))
            assert {answer.status_code for answer in said} == {200}
        found = [day0("replay", bundle, "--json").json["verdict"] for bundle in sorted(tmp_path.rglob("incident-*.yaml"))]
    assert len(found) == len(texts) and ("batch-dependent" in found if fault else set(found) == {"reproduced"})
