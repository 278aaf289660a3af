"""Report the health of this process to probes, a heartbeat file and systemd."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from django_pgqueue.worker.operate.sd_notify import sd_notify, under_systemd, watchdog_interval

# Seconds. A control loop that has not come round for so long hangs.
LONGEST_SILENCE = 10.0
FILE_INTERVAL = 1.0


@dataclass(frozen=True, slots=True)
class Health:
    """``problems``: why it is not ready, in words. ``workers``: what runs handlers, one dict each."""

    state: str
    problems: list[str] = field(default_factory=list)
    workers: list[dict[str, Any]] = field(default_factory=list)

    @property
    def ready(self) -> bool:
        return self.state == "running" and not self.problems

    @property
    def summary(self) -> str:
        running = sum(worker["running"] for worker in self.workers)
        return f"{self.state}: {'; '.join(self.problems) or 'all is well'}; {running} message(s) running"


class Vitals:
    """``address``: where to answer probes by HTTP; ``file``: refreshed as long as the control loop is alive."""

    def __init__(
        self,
        *,
        address: tuple[str, int] | None = None,
        file: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._file = file
        self._server = None if address is None else ProbeServer(address, self)
        self._answers = threading.Thread(target=self._answer, name="pgqueue-probes", daemon=True)
        self._health: Callable[[], Health] = lambda: Health("starting")
        self._beat_at = clock()
        self._ready = False
        self._file_due = self._watchdog_due = -math.inf
        self._watchdog = watchdog_interval()

    @property
    def port(self) -> int | None:
        return None if self._server is None else self._server.server_port

    def start(self, health: Callable[[], Health]) -> None:
        self._health = health
        if self._server is not None:
            self._answers.start()
        self.beat()

    def beat(self, *, changing: bool = False) -> None:
        """The control loop has come round. ``changing``: processes are being replaced."""
        now = self._beat_at = self._clock()
        if self._file is None and not under_systemd():
            return
        if self._watchdog is not None and now >= self._watchdog_due:
            sd_notify("WATCHDOG=1")
            self._watchdog_due = now + self._watchdog
        if now >= self._file_due:
            self._file_due = now + FILE_INTERVAL
            health = self._health()
            becomes_ready = health.ready and not changing and not self._ready
            sd_notify(f"STATUS={health.summary}", *(["READY=1"] if becomes_ready else []))
            self._ready = self._ready or becomes_ready
            if self._file is not None:
                self._write(self._file, health)

    def reloading(self) -> None:
        """Notify systemd that processes are being replaced, so that it waits."""
        sd_notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
        self._ready = False

    def stopping(self) -> None:
        sd_notify("STOPPING=1")

    def stop(self) -> None:
        if self._server is not None:
            if self._answers.is_alive():
                self._server.shutdown()
            self._server.server_close()
        if self._file is not None:
            with suppress(OSError):
                self._file.unlink(missing_ok=True)

    def live(self) -> tuple[bool, dict[str, Any]]:
        """Return whether the control loop is alive. If not, only a restart helps."""
        silence = self._clock() - self._beat_at
        alive = silence <= LONGEST_SILENCE
        return alive, {"live": alive, "seconds_since_beat": round(silence, 1)}

    def ready(self) -> tuple[bool, dict[str, Any]]:
        """Return whether the worker is ready. If not, it may recover with the database."""
        health = self._health()
        return health.ready, {"ready": health.ready, **asdict(health)}

    def _answer(self) -> None:
        if self._server is not None:
            self._server.serve_forever()

    def _write(self, file: Path, health: Health) -> None:
        text = json.dumps({"pid": os.getpid(), "ready": health.ready, **asdict(health)})
        draft = file.with_name(f"{file.name}.{os.getpid()}")
        # A full disk must not stop the work; readers of the file notice that it is old.
        with suppress(OSError):
            draft.write_text(text)
            draft.replace(file)


class ProbeServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], vitals: Vitals) -> None:
        self.vitals = vitals
        super().__init__(address, ProbeHandler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a prober that hangs up."""


class ProbeHandler(BaseHTTPRequestHandler):
    server: ProbeServer
    timeout = 5

    def do_GET(self) -> None:
        probes = {"/livez": self.server.vitals.live, "/readyz": self.server.vitals.ready}
        probe = probes.get(self.path)
        good, answer = probe() if probe is not None else (False, {"paths": list(probes)})
        body = json.dumps(answer).encode()
        self.send_response(200 if good else 503 if probe is not None else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        """Log nothing: probes come every few seconds."""
