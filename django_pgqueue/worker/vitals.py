"""Report the health of this process to probes, a heartbeat file and systemd."""

from __future__ import annotations

import json
import math
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from django_pgqueue.worker import numbers


def under_systemd() -> bool:
    """Return whether systemd has started this process with Type=notify."""
    return bool(os.environ.get("NOTIFY_SOCKET"))


def sd_notify(*lines: str) -> None:
    """Send lines such as READY=1 to systemd. Without systemd, or if it does not listen, nothing is sent."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.sendto("\n".join(lines).encode(), address)


def watchdog_interval() -> float | None:
    """Return a safe interval in seconds between two WATCHDOG=1: a third of WatchdogSec; None without a watchdog."""
    meant_for = os.environ.get("WATCHDOG_PID", "")
    if meant_for and meant_for != str(os.getpid()):
        return None
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    return int(microseconds) / 3_000_000 if microseconds.isdigit() and int(microseconds) else None


@dataclass(frozen=True, slots=True)
class Health:
    """Hold the health of a process.

    ``state``: starting, running or stopping. ``problems``: sentences that say why it is not ready. ``workers``: a dict
    for each worker with name, pid, state and the number of running messages.
    """

    state: str
    problems: list[str] = field(default_factory=list)
    workers: list[dict[str, Any]] = field(default_factory=list)

    @property
    def ready(self) -> bool:
        """Return whether it runs and has no problems."""
        return self.state == "running" and not self.problems

    @property
    def summary(self) -> str:
        """Return state, problems and the number of running messages in one line."""
        running = sum(worker["running"] for worker in self.workers)
        return f"{self.state}: {'; '.join(self.problems) or 'all is well'}; {running} message(s) running"


class Vitals:
    """Report the health of a supervisor, or of a worker without one, to HTTP probes, a heartbeat file and systemd.

    The control loop calls :meth:`beat` each time round. ``address``: host and port for HTTP probes; None: none.
    ``file``: written every FILE_SECONDS while the control loop is alive; None: none. ``clock``: as time.monotonic().
    """

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
        serve = None if self._server is None else self._server.serve_forever
        self._answers = threading.Thread(target=serve, name="pgqueue-probes", daemon=True)
        self._health: Callable[[], Health] = lambda: Health("starting")
        self._beat_at = clock()
        self._ready = False
        self._file_due = self._watchdog_due = -math.inf
        self._watchdog = watchdog_interval()

    @property
    def port(self) -> int | None:
        """Return the port of the HTTP probes, or None."""
        return None if self._server is None else self._server.server_port

    def start(self, health: Callable[[], Health]) -> None:
        """Answer probes from now on. ``health``: returns the present health of the process."""
        self._health = health
        if self._server is not None:
            self._answers.start()
        self.beat()

    def beat(self, *, changing: bool = False) -> None:
        """Record that the control loop is alive, and report that to the file and to systemd when it is due.

        ``changing``: processes are being replaced, so READY=1 is not sent yet.
        """
        now = self._beat_at = self._clock()
        if self._file is None and not under_systemd():
            return
        if self._watchdog is not None and now >= self._watchdog_due:
            sd_notify("WATCHDOG=1")
            self._watchdog_due = now + self._watchdog
        if now >= self._file_due:
            self._file_due = now + numbers.FILE_SECONDS
            health = self._health()
            becomes_ready = health.ready and not changing and not self._ready
            sd_notify(f"STATUS={health.summary}", *(["READY=1"] if becomes_ready else []))
            self._ready = self._ready or becomes_ready
            if self._file is not None:
                self._write(self._file, health)

    def reloading(self) -> None:
        """Report to systemd that processes are being replaced, so that it waits for READY=1."""
        sd_notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
        self._ready = False

    def stopping(self) -> None:
        """Report to systemd that the process is stopping."""
        sd_notify("STOPPING=1")

    def stop(self) -> None:
        """Answer no more probes, and delete the heartbeat file."""
        if self._server is not None:
            if self._answers.is_alive():
                self._server.shutdown()
            self._server.server_close()
        if self._file is not None:
            with suppress(OSError):
                self._file.unlink(missing_ok=True)

    def live(self) -> tuple[bool, dict[str, Any]]:
        """Return whether the control loop is alive, and the answer for /livez. If it is not, only a restart helps."""
        silence = self._clock() - self._beat_at
        alive = silence <= numbers.LONGEST_SILENCE_SECONDS
        return alive, {"live": alive, "seconds_since_beat": round(silence, 1)}

    def ready(self) -> tuple[bool, dict[str, Any]]:
        """Return whether the worker is ready, and the answer for /readyz. It may recover with the database."""
        health = self._health()
        return health.ready, {"ready": health.ready, **asdict(health)}

    def _write(self, file: Path, health: Health) -> None:
        text = json.dumps({"pid": os.getpid(), "ready": health.ready, **asdict(health)})
        draft = file.with_name(f"{file.name}.{os.getpid()}")
        # A full disk must not stop the work; readers of the file notice that it is old.
        with suppress(OSError):
            draft.write_text(text)
            draft.replace(file)


class ProbeServer(ThreadingHTTPServer):
    """Serve HTTP probes, each in a thread of its own. ``vitals``: has the answers."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], vitals: Vitals) -> None:
        self.vitals = vitals
        super().__init__(address, ProbeHandler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that closes the connection early."""


class ProbeHandler(BaseHTTPRequestHandler):
    """Answer one probe: 200 if it succeeds, 503 if it fails, 404 for another path."""

    server: ProbeServer
    timeout = 5

    def do_GET(self) -> None:
        """Answer /livez or /readyz with JSON."""
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
