"""A headless browser, driven by the WebDriver protocol: one JSON request a command, nothing to install but chromedriver."""

import base64
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the driver is on this machine
PATIENCE = 30  # seconds for one command
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
)  # fmt: skip


def missing() -> str | None:
    """Why there is no browser on this machine; None when there is one."""
    return None if shutil.which("chromedriver") else "no chromedriver on this machine (Debian: apt-get install chromium-driver)"


class Browser:
    """One session."""

    def __init__(self, address: str, profile: Path) -> None:
        self.address = address
        options = {"args": [*FLAGS, f"--user-data-dir={profile}"]}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        session = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.address = f"{address}/session/{session['sessionId']}"

    def open(self, url: str, width: int = 1200, *, dark: bool = False, media: str = "screen") -> None:
        """Load a page of that width."""
        self.tell("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.tell("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.log("performance")
        self._ask("POST", "/url", {"url": url})

    def run(self, script: str, *arguments: object) -> Any:
        """Value of a function's body in the page; runs in spite of the page's own policy."""
        return self._ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def tell(self, command: str, **parameters: object) -> Any:
        """A command of the DevTools protocol."""
        return self._ask("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def press(self, key: str) -> None:
        code = {"Tab": 9, "Enter": 13}[key]
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.tell("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **(text if kind == "keyDown" else {}))

    def log(self, kind: str = "browser") -> list[dict[str, Any]]:
        """Entries since the last call."""
        found: list[dict[str, Any]] = self._ask("POST", "/se/log", {"type": kind})
        return found

    def requests(self) -> list[str]:
        """Addresses that the page asked for since it was opened."""
        events = [json.loads(entry["message"])["message"] for entry in self.log("performance")]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def picture(self, path: Path) -> None:
        """The whole page as it looks."""
        data = self.tell("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(data))

    def close(self) -> None:
        self._ask("DELETE", "")

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"}, method=method)
        with DIRECT.open(request, timeout=PATIENCE) as response:
            return json.load(response)["value"]


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A driver of its own, and one session."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    driver = subprocess.Popen(["chromedriver", f"--port={port}"], env={**os.environ, "HOME": str(profile)}, **quiet)  # type: ignore[call-overload]
    try:
        session = _start(f"http://127.0.0.1:{port}", profile)
        try:
            yield session
        finally:
            session.close()
    finally:
        driver.terminate()
        driver.wait(PATIENCE)


def _start(address: str, profile: Path) -> Browser:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            DIRECT.open(f"{address}/status", timeout=1).close()
            return Browser(address, profile)
        except (urllib.error.URLError, TimeoutError):
            assert time.monotonic() < deadline, "chromedriver does not answer"
            time.sleep(0.05)
