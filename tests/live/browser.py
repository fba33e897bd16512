"""Headless Chromium, driven through its DevTools protocol over a pipe: no port, no driver, no package."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_SECONDS = 60


def find_chromium() -> str | None:
    """Returns the program named by `CHROMIUM`, else the Chromium on PATH, or None."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _PROGRAMS)), None)


class Page:
    """One page of a browser, and the DevTools events received so far.

    Example:
        >>> with open_browser("chromium") as page:
        ...     page.show("file:///tmp/report.html", width=390)
        ...     page.evaluate("document.title")
        'taxi: blessed'
    """

    def __init__(self, process: subprocess.Popen[bytes], write: int, read: int) -> None:
        self.events: list[dict[str, Any]] = []
        self._process, self._write, self._read = process, write, read
        self._received = b""
        self._calls = 0
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """Calls a DevTools method and returns its result.

        Raises:
            RuntimeError: The browser rejects the call, ends, or does not respond.
        """
        self._calls += 1
        message = {"id": self._calls, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._calls:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def show(self, url: str, *, width: int, height: int = 900, dark: bool = False, phone: bool = False) -> None:
        """Loads a page into a window of this size, in the light or the dark color scheme.

        Args:
            url: URL of the page.
            width, height: Size of the window in CSS pixels.
            dark: Whether the reader prefers dark colors.
            phone: Whether the viewport behaves as on a phone, where it widens to content that does not fit.
        """
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2, mobile=phone)
        self.events.clear()
        self.call("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._receive())

    def draw_charts(self) -> None:
        """Draws all charts of the page that are not drawn yet.

        Raises:
            RuntimeError: A chart is not drawn within a minute.
        """
        self.evaluate("dispatchEvent(new Event('beforeprint'))")
        deadline = time.monotonic() + _SECONDS
        while self.evaluate("!!document.querySelector('figure.chart > div:empty')"):
            if time.monotonic() > deadline:
                raise RuntimeError("A chart is not drawn.")
            time.sleep(0.05)

    def evaluate(self, expression: str) -> Any:
        """Returns the value of a JavaScript expression on the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def click(self, selector: str) -> None:
        """Clicks the middle of an element with the mouse, as a reader does."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.evaluate(f"{found}.scrollIntoView({{block: 'center'}})")
        box = self.evaluate(
            f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])({found}.getBoundingClientRect())"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def screenshot(self, path: Path, *, height: int | None = None) -> None:
        """Writes a PNG of the window, or of the top `height` pixels of the page."""
        clip = {}
        if height:
            width = self.evaluate("innerWidth")
            clip = {"clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}}
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, **clip)
        path.write_bytes(base64.b64decode(answer["data"]))

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + _SECONDS
        while b"\0" not in self._received:
            ready, _, _ = select.select([self._read], [], [], max(0, deadline - time.monotonic()))
            more = os.read(self._read, 1 << 20) if ready else b""
            if not more:
                raise RuntimeError(f"{self._process.args} ended, or did not answer in {_SECONDS} s.")
            self._received += more
        message, _, self._received = self._received.partition(b"\0")
        return json.loads(message)


@contextmanager
def open_browser(program: str) -> Iterator[Page]:
    """Runs a headless Chromium with an empty profile and yields its only page."""
    to_browser, write = os.pipe()
    read, from_browser = os.pipe()
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        # Chromium reads commands from file descriptor 3 and writes responses to 4. A shell redirects the pipes there.
        command = (
            f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}',
            program, "--headless=new", "--remote-debugging-pipe", f"--user-data-dir={profile}", "--no-first-run",
            "--disable-gpu", "--disable-background-networking", "--hide-scrollbars", "--force-color-profile=srgb",
            *(["--no-sandbox"] if os.geteuid() == 0 else []),
        )  # fmt: skip
        process = subprocess.Popen(
            ["bash", "-c", *command],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        try:
            yield Page(process, write, read)
        finally:
            os.close(write)
            os.close(read)
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
