"""A headless Chromium, spoken to through two pipes (the Chrome DevTools Protocol): no driver, no package, no port."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
LONGEST = 60.0
MISSING = (
    "These tests need Chromium, and there is none: apt-get install chromium (or .ci/tools), or set PGQUEUE_CHROMIUM to "
    "the program."
)
QUIET = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--disable-dev-shm-usage", "--remote-debugging-pipe", "--disable-features=Translate,MediaRouter",
)  # fmt: skip


def program() -> str:
    given = os.environ.get("PGQUEUE_CHROMIUM")
    found = given or next(filter(None, map(shutil.which, NAMES)), None)
    assert found, MISSING
    return found


class Chromium:
    """One process, with a profile of its own in ``folder``."""

    def __init__(self, folder: Path) -> None:
        to_read, to_write = os.pipe()
        from_read, from_write = os.pipe()
        command = f'exec "$0" "$@" 3<&{to_read} 4>&{from_write}'
        self._process = subprocess.Popen(
            # It reads from descriptor 3 and writes to 4.
            ["bash", "-c", command, program(), *QUIET, f"--user-data-dir={folder}"],
            pass_fds=(to_read, from_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(from_write)
        self._out = os.fdopen(to_write, "wb", buffering=0)
        self._in = os.fdopen(from_read, "rb")
        self._answers: dict[int, dict[str, Any]] = {}
        self._number = 0
        self._heard = threading.Condition()
        self.events: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        rest = b""
        while chunk := os.read(self._in.fileno(), 1 << 20):
            *messages, rest = (rest + chunk).split(b"\0")
            with self._heard:
                for message in map(json.loads, messages):
                    if "id" in message:
                        self._answers[message["id"]] = message
                    else:
                        self.events.append(message)
                self._heard.notify_all()

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        with self._heard:
            self._number += 1
            number = self._number
            message = {"id": number, "method": method, "params": parameters}
            if session:
                message["sessionId"] = session
            self._out.write(json.dumps(message).encode() + b"\0")
            assert self._heard.wait_for(lambda: number in self._answers, LONGEST), f"Chromium does not answer {method}"
            answer = self._answers.pop(number)
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def wait_for(self, is_it: Callable[[dict[str, Any]], bool], start: int) -> None:
        """Until one of the events from place ``start`` on is it."""
        with self._heard:
            assert self._heard.wait_for(lambda: any(map(is_it, self.events[start:])), LONGEST), (
                "the event does not come"
            )

    def tab(self) -> Tab:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        return Tab(self, target, self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])

    def close(self) -> None:
        self.call("Browser.close")
        self._process.wait(LONGEST)
        self._reader.join(LONGEST)
        self._out.close()
        self._in.close()


class Tab:
    def __init__(self, browser: Chromium, target: str, session: str) -> None:
        self._browser = browser
        self._session = session
        self.target = target
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **parameters)

    def size(self, width: int, height: int = 900) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def scheme(self, name: str) -> None:
        """``light`` or ``dark``."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def cookie(self, url: str, name: str, value: str) -> None:
        self.call("Network.setCookie", url=url, name=name, value=value)

    def open(self, url: str) -> None:
        start = len(self._browser.events)
        answer = self.call("Page.navigate", url=url)
        assert "errorText" not in answer, answer
        self._browser.wait_for(lambda event: event["method"] == "Page.loadEventFired" and self._is_mine(event), start)

    def _is_mine(self, event: dict[str, Any]) -> bool:
        return event.get("sessionId") == self._session

    def run(self, script: str) -> Any:
        """The value of an expression, awaited."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, script: str, longest: float = LONGEST) -> None:
        """Wait until the expression is true."""
        end = time.monotonic() + longest
        while not self.run(script):
            assert time.monotonic() < end, f"never true: {script}"
            time.sleep(0.05)

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(picture["data"]))

    def close(self) -> None:
        self._browser.call("Target.closeTarget", targetId=self.target)

    def complaints(self) -> list[str]:
        """Return the console's messages about this page: errors, exceptions, violations of Content-Security-Policy."""
        found = []
        for event in filter(self._is_mine, self._browser.events):
            details = event["params"]
            match event["method"]:
                case "Runtime.exceptionThrown":
                    found.append(json.dumps(details["exceptionDetails"]))
                case "Runtime.consoleAPICalled" if details["type"] in ("error", "warning", "assert"):
                    found.append(json.dumps(details["args"]))
                case "Log.entryAdded" if details["entry"]["level"] in ("error", "warning"):
                    entry = f"{details['entry']['text']} {details['entry'].get('url', '')}"
                    # The browser asks for it by itself.
                    if not entry.endswith("/favicon.ico"):
                        found.append(entry)
        return found
