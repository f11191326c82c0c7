"""A service on a real socket, and a client that speaks to it."""

import threading
import time
from contextlib import contextmanager

import httpx

from day0.serve.listen import Server, bind, url

PATIENCE = 30.0


def until(condition):
    """Wait for something that another thread brings about."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.005)


@contextmanager
def listening(app, runner, wait=True):
    """The address while the service runs."""
    sock = bind("127.0.0.1", 0)
    server = Server(app, runner, patience=5)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    until(lambda: server.started)
    if wait:
        until(lambda: runner.state == "ready")
    try:
        yield url(sock)
    finally:
        server.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive()
        sock.close()


@contextmanager
def client(app, runner, wait=True, **settings):
    """An HTTP client of the service while it runs."""
    with listening(app, runner, wait) as address, httpx.Client(base_url=address, timeout=PATIENCE, **settings) as http:
        yield http
