"""The processes of a run: workers and clients, each behind a proxy of its own; replaced when they end."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.faketime import libfaketime
from tests.support.paths import REPOSITORY
from tests.support.proxy import Proxy
from verification.chaos.crowd import CROWD
from verification.chaos.history.recorder import epoch
from verification.chaos.server import children

from .plan import LEASE

MARK = "CHAOS_RUN"
# Seconds in which a process surely has imported everything, however busy the machine is.
STARTS_WITHIN = 30.0
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Post:
    """One process that is started again whenever it ends, and the proxy that all its connections go through."""

    name: str
    command: list[str]
    environment: dict[str, str]
    proxy: Proxy
    log: Path
    popen: subprocess.Popen[bytes] | None = None
    starts: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    started_at: float = 0.0
    retired: bool = False
    clock: Path | None = None  # a file that says by how many seconds its clock is wrong

    @property
    def age(self) -> float:
        return time.monotonic() - self.started_at

    def tend(self) -> None:
        if self.retired or (self.popen is not None and self.popen.poll() is None):
            return
        self.started_at = time.monotonic()
        environment = {**self.environment, "CHAOS_NAME": f"{self.name}-{next(self.starts)}"}
        with self.log.open("ab") as log:
            self.popen = subprocess.Popen(
                self.command, env=environment, cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    @property
    def pid(self) -> int | None:
        return self.popen.pid if self.popen is not None and self.popen.poll() is None else None

    def signal(self, number: int) -> None:
        if self.pid is not None:
            os.kill(self.pid, number)


class Fleet:
    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.run = f"{os.getpid()}-{time.time_ns()}"
        self.workers: list[Post] = []
        self.clients: list[Post] = []

    def worker(self, name: str, processes: int, *, clock: bool = False) -> None:
        """``clock``: one that can be set."""
        options = ["--processes", str(processes), "--concurrency", "4", "--batch", "8", "--shutdown-timeout", "5"]
        options += ["--no-reload"] if processes else []
        queues = ["--queue", "default", "--queue", CROWD]
        command = [sys.executable, "-m", "django", "runqueueworker", "--skip-checks", *queues, *options]
        supervised = {"CHAOS_SUPERVISED": "1" if processes else "0"}
        library = libfaketime() if clock else None
        if library is None:
            self.workers.append(self._post(name, command, supervised))
            return
        file = self.folder / f"{name}.clock"
        file.write_text("+0\n")
        post = self._post(name, command, {**supervised, **wrong_clock(library, file)})
        post.clock = file
        self.workers.append(post)

    def client(self, name: str, roles: list[str], **stage: Any) -> None:
        given = {"CHAOS_STAGE": json.dumps({"roles": roles, "folder": str(self.folder), **stage})}
        self.clients.append(self._post(name, [sys.executable, "-m", "verification.chaos.actors"], given))

    def _post(self, name: str, command: list[str], more: dict[str, str]) -> Post:
        proxy = Proxy(self.url)
        environment = {
            **os.environ,
            "DATABASE_URL": proxy.url,
            "DJANGO_SETTINGS_MODULE": "verification.chaos.app.settings",
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "testproject")]),
            "CHAOS_FOLDER": str(self.folder),
            "CHAOS_LEASE": str(LEASE),
            "CHAOS_EPOCH": epoch(),
            MARK: self.run,
            **more,
        }
        return Post(name, command, environment, proxy, self.folder / f"{name}.log")

    @property
    def posts(self) -> list[Post]:
        return [*self.workers, *self.clients]

    def tend(self) -> None:
        for post in self.posts:
            post.tend()

    def processes(self, *, grown: float = 0.0) -> list[int]:
        """Those that run handlers, and are older than so many seconds."""
        found = []
        for post in self.workers:
            if post.pid is not None:
                found += children(post.pid) or [post.pid]
        return [pid for pid in found if age(pid) > grown]

    def proxies(self) -> list[Proxy]:
        return [post.proxy for post in self.posts]

    def retire(self, posts: list[Post], *, patience: float = 40.0) -> list[str]:
        """Ask them to end. Returns who did not end as it should."""
        wrong = []
        for post in posts:
            post.retired = True
            post.signal(signal.SIGTERM)
        deadline = time.monotonic() + patience
        for post in posts:
            if post.popen is None:
                continue
            try:
                status = post.popen.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                status = None
            # Its signal to end came before it could listen to signals.
            young = status == -signal.SIGTERM and post.age < STARTS_WITHIN
            if status != 0 and not young:
                wrong.append(f"{post.name} ended with {status}")
        return wrong

    def close(self) -> None:
        """End the processes that still run: each process of this run carries its mark."""
        for post in self.posts:
            post.retired = True
        for pid in marked(self.run):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for post in self.posts:
            if post.popen is not None:
                post.popen.wait()
            post.proxy.__exit__(None, None, None)


def wrong_clock(library: str, file: Path) -> dict[str, str]:
    return {
        "LD_PRELOAD": library,
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_RESET": "1",
    }


def marked(run: str) -> list[int]:
    """All processes that have the run in their environment, orphans too."""
    mark = f"{MARK}={run}".encode()
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark in file.read_bytes().split(b"\0"):
                found.append(int(file.parent.name))
    return found


def age(pid: int) -> float:
    """Seconds since a process began; 0 for one that is gone."""
    try:
        started = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]) / TICKS
        return float(Path("/proc/uptime").read_text().split()[0]) - started
    except OSError:
        return 0.0
