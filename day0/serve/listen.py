"""The address: taken before anything is loaded, served until interrupted."""

import errno
import socket
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from day0.serve.runner import Runner
from day0.spec.errors import Day0Error

BACKLOG = 2048


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (socket.gaierror, UnicodeError):
        raise Day0Error(f"there is no address {host!r}", hint="--host 127.0.0.1 is this machine alone") from None
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        if error.errno == errno.EADDRINUSE:
            raise Day0Error(f"port {port} on {host} is in use", hint="choose another with --port; 0 takes a free one") from None
        raise Day0Error(f"cannot listen on {host} port {port}: {error.strerror}") from None
    return sock


def url(sock: socket.socket) -> str:
    """Where clients find it."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class Server(uvicorn.Server):
    """uvicorn's; the first signal lets answers end, the second does not wait."""

    def __init__(self, app: ASGIApp, runner: Runner, patience: int) -> None:
        config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=patience, lifespan="on", ws="none")
        super().__init__(config)
        self.runner = runner

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Take nothing new and end when all is answered; at once when it is called again."""
        self.force_exit = self.should_exit
        self.runner.drain()
        self.should_exit = True
