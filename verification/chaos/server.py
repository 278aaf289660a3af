"""A private PostgreSQL for a run: its databases, its log, its violent end and its recovery."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from django_pgqueue.embedded import Cluster, temporary_cluster
from tests.support.paths import REPOSITORY

from .disk import Disk, may_mount, on_small_disk
from .history import Recorder, audit

TEMPLATE = "chaos_template"
SETTINGS = {
    **audit.SETTINGS,
    # %e, the SQLSTATE, is what the history wants to know of each error.
    "log_line_prefix": "%m|%p|%e|",
    "log_min_messages": "warning",
    "log_min_error_statement": "panic",
    "log_checkpoints": "off",
    "max_connections": "80",
    "max_wal_size": "512MB",
}
LINE = re.compile(r"^\S+ \S+ \S+\|(\d+)\|(\w{5})\|(ERROR|FATAL|PANIC):  (.*)$")


@dataclass(slots=True)
class Server:
    """Makes databases from a template that has the queue's tables and functions."""

    cluster: Cluster
    disk: Disk | None = None
    _logged: int = field(default=0)

    def url(self, database: str) -> str:
        return self.cluster.url(database)

    def connect(self, database: str = "postgres") -> psycopg.Connection[Any]:
        return psycopg.connect(self.url(database), autocommit=True, application_name="chaos driver")

    def make_template(self) -> None:
        with self.connect() as session:
            session.execute(f"CREATE DATABASE {TEMPLATE}")
        self.manage(TEMPLATE, "migrate", "pgqueue_pipeline", "--verbosity", "0")
        self.manage(TEMPLATE, "migrate", "pgqueue_flow", "--verbosity", "0")

    def manage(self, database: str, *command: str) -> None:
        """Run a management command of the test project on a database."""
        environment = {
            **os.environ,
            "DATABASE_URL": self.url(database),
            "DJANGO_SETTINGS_MODULE": "testproject.settings",
            "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "testproject")]),
        }
        line = [sys.executable, "-m", "django", *command, "--skip-checks"]
        subprocess.run(line, env=environment, cwd=REPOSITORY, stdout=subprocess.DEVNULL, check=True)

    def make_database(self, name: str) -> str:
        """Returns its URL."""
        with self.connect() as session:
            session.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            session.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
        return self.url(name)

    def kill(self, *, all_of_it: bool) -> None:
        """SIGKILL the postmaster; with ``all_of_it`` each of its processes, too, as if the machine had lost power
        but for what its disks cache."""
        pid = self.cluster.pid
        assert pid is not None
        victims = [pid, *(children(pid) if all_of_it else [])]
        for victim in victims:
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        while lives(pid):
            time.sleep(0.01)

    def recover(self) -> float:
        """Start it again. Returns the seconds until it answers."""
        started = time.monotonic()
        while True:
            self.cluster.start()
            try:
                with self.connect() as session:
                    session.execute("SELECT 1")
                return time.monotonic() - started
            except psycopg.OperationalError:
                if time.monotonic() - started > 60:
                    raise
                time.sleep(0.05)

    def fill_disk(self, spare: int = 0, *, panics: bool = False) -> None:
        """``spare``: bytes that are left. ``panics``: the log of transactions needs a new file at once."""
        assert self.disk is not None
        self.disk.fill(spare)
        if panics:
            with suppress(psycopg.OperationalError), self.connect() as session:
                session.execute("SELECT pg_switch_wal()")

    def free_disk(self) -> float:
        """Returns the seconds until the server answers."""
        assert self.disk is not None
        self.disk.free()
        return self.recover()

    def report_errors(self, recorder: Recorder) -> int:
        """Write each error of the server's log since the last call into the history. Returns how many lines it read."""
        with self.cluster.log.open("rb") as file:
            file.seek(self._logged)
            text = file.read()
        self._logged += len(text)
        lines = text.decode(errors="replace").splitlines()
        for line in lines:
            if match := LINE.match(line):
                pid, state, _, message = match.groups()
                recorder.info("server", pid=int(pid), sqlstate=state, message=message[:300])
        return len(lines)


def lives(pid: int) -> bool:
    """A zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children(pid: int) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(process.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(process.parent.name))
    return found


@contextmanager
def private_server(*, small_disk: bool = False, **settings: str) -> Iterator[Server]:
    """``small_disk``: on one that can be filled, where this process may mount one."""
    with temporary_cluster(settings={**SETTINGS, **settings}) as cluster, ExitStack() as stack:
        disk = stack.enter_context(on_small_disk(cluster)) if small_disk and may_mount() else None
        server = Server(cluster, disk)
        server.make_template()
        yield server
