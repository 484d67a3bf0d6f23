"""A headless Chromium driven through its debugging pipe: two file descriptors, JSON, nothing to install."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from select import select

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--disable-extensions",
    "--no-default-browser-check", "--remote-debugging-pipe",
)  # fmt: skip
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_chromium() -> str | None:
    """A browser on the PATH; as root with apt, one is installed first."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None and hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("apt-get"):
        for command in (["apt-get", "update", "-q"], ["apt-get", "install", "-y", "-q", "chromium"]):
            subprocess.run(command, capture_output=True, check=False, timeout=240)
        found = next((path for name in NAMES if (path := shutil.which(name))), None)
    return found


class Chromium:
    """One page; every request it makes and every error it reports is kept."""

    def __init__(self, path: str, profile: Path) -> None:
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        os.set_inheritable(to_browser, True)
        os.set_inheritable(from_browser, True)
        # the browser reads from descriptor 3 and writes to descriptor 4; both are moved aside first, in case they clash
        line = f'exec 98<&{to_browser} 99>&{from_browser}; exec "$@" 3<&98 4>&99'
        self._process = subprocess.Popen(
            ["bash", "-c", line, "bash", path, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._ids, self._buffer, self._session = itertools.count(1), b"", None
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.loaded = False
        pages = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        target = pages[0]["targetId"] if pages else self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: object) -> dict:
        number = next(self._ids)
        message = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def _read(self, seconds: float = 60.0) -> dict:
        end = time.monotonic() + seconds
        while b"\0" not in self._buffer:
            ready, _, _ = select([self._in], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the browser does not answer"
            piece = os.read(self._in, 1 << 20)
            assert piece, "the browser has gone"
            self._buffer += piece
        line, self._buffer = self._buffer.split(b"\0", 1)
        answer = json.loads(line)
        self._note(answer.get("method"), answer.get("params", {}))
        return answer

    def _note(self, method: str | None, about: dict) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(str(about["exceptionDetails"]))
        elif (method == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning")) or (
            method == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning")
        ):
            self.errors.append(json.dumps(about))
        elif method == "Page.loadEventFired":
            self.loaded = True

    def window(self, width: int, height: int, *, dark: bool = False, phone: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, page: Path) -> None:
        self.loaded = False
        self.call("Page.navigate", url=page.as_uri())
        while not self.loaded:
            self._read()

    def run(self, script: str) -> object:
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def type_into(self, name: str, value: object, event: str = "input") -> None:
        """Set a control the way a reader does: its value changes, then its event fires."""
        self.run(
            f"(() => {{ const e = document.getElementById({json.dumps(name)}); e.value = {json.dumps(str(value))};"
            f" e.dispatchEvent(new Event({json.dumps(event)}, {{bubbles: true}})); }})()"
        )

    def screenshot(self, target: Path, *, beyond: bool = True) -> None:
        """The whole page, or only what the window shows."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=beyond)
        target.write_bytes(base64.b64decode(shot["data"]))

    def close(self) -> None:
        try:
            self._session = None
            os.write(self._out, b'{"id": 0, "method": "Browser.close"}\0')
            self._process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait(10)
        os.close(self._in)
        os.close(self._out)
