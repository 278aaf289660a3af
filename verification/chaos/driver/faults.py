"""The faults of a run. Each writes into the history what it did to which process, and for how long."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import psycopg

from tests.support.proxy import Proxy, Trap, When
from verification.chaos.history import Recorder
from verification.chaos.server import Server, children
from verification.chaos.upgrade.command import start as start_migration

from .fleet import Fleet, Post
from .plan import LEASE, Fault

# The statements of a client just before something becomes durable: of a transaction, and single ones.
COMMITS = {"producers": ("COMMIT", "pgqueue_enqueue("), "consumers": ("COMMIT", "pgqueue_complete")}
WORKERS_COMMITS = ("COMMIT", "pgqueue_complete")
OTHERS = "datname = current_database() AND application_name <> 'chaos driver' AND backend_type = 'client backend'"
# A worker that was started a moment ago does nothing yet that could be interrupted.
GROWN = 2.5


class Faults:
    """``injected``: how many, by kind. A trap counts when it has sprung."""

    def __init__(self, fleet: Fleet, server: Server, database: str, recorder: Recorder) -> None:
        self.fleet = fleet
        self.server = server
        self.database = database
        self.recorder = recorder
        self.injected: Counter[str] = Counter()
        self.recoveries: list[float] = []
        self._heal: list[tuple[float, Callable[[], None]]] = []
        self._traps: list[tuple[Trap, str]] = []
        self._disk_is_full = False

    def inject(self, fault: Fault) -> bool:
        """Return False if there is no target yet, or no connection left for the fault: try again."""
        try:
            return getattr(self, fault.kind.replace(" ", "_"))(fault) is not False
        except psycopg.OperationalError:
            return False

    def tend(self, *, all_of_them: bool = False) -> None:
        """Undo what has lasted long enough; count the traps that have sprung."""
        due = [item for item in self._heal if all_of_them or item[0] <= time.monotonic()]
        self._heal = [item for item in self._heal if item not in due]
        for _, undo in due:
            try:
                undo()
            except psycopg.OperationalError:
                self._later(0.3, undo)
        for trap, target in [item for item in self._traps if item[0].sprung.is_set()]:
            self._traps.remove((trap, target))
            self._say("cut at commit", target=target, when=trap.when, text=trap.text.decode())

    @property
    def unhealed(self) -> int:
        """How many last still."""
        return len(self._heal)

    @property
    def traps(self) -> list[str]:
        """Return whose commits are waited for."""
        return [f"{target}: {trap.text.decode()}" for trap, target in self._traps]

    def _say(self, kind: str, lasts: float = 0.0, **fields: Any) -> None:
        self.injected[kind] += 1
        self.recorder.info("fault", kind=kind, lasts=int(lasts * 1_000_000), **fields)

    def _later(self, seconds: float, undo: Callable[[], None]) -> None:
        self._heal.append((time.monotonic() + seconds, undo))

    # Processes.

    def kill(self, fault: Fault) -> bool | None:
        if fault.dice[1] < 0.8:
            pid = fault.pick(self.fleet.processes(grown=GROWN))
            if pid is None:
                return False
            self._say("kill", pid=pid)
            end(pid, signal.SIGKILL)
            return None
        post: Post = fault.pick(self.fleet.workers)
        if post.pid is None:
            return False
        victims = [post.pid, *(children(post.pid) if fault.dice[1] < 0.9 else [])]
        self._say("kill", pid=post.pid, supervisor=post.name, together=len(victims))
        for pid in victims:
            end(pid, signal.SIGKILL)
        return None

    def stop(self, fault: Fault) -> bool | None:
        pid = fault.pick(self.fleet.processes(grown=GROWN))
        if pid is None:
            return False
        lasts = fault.between(0.5 * LEASE, 3 * LEASE)
        self._say("stop", lasts, pid=pid)
        end(pid, signal.SIGSTOP)
        self._later(lasts, lambda: end(pid, signal.SIGCONT))
        return None

    def term(self, fault: Fault) -> None:
        post: Post = fault.pick(self.fleet.workers)
        self._say("term", target=post.name)
        post.signal(signal.SIGTERM)

    def kill_client(self, fault: Fault) -> None:
        post: Post = fault.pick(self.fleet.clients)
        self._say("kill client", 2.0, target=post.name)
        post.signal(signal.SIGKILL)

    def clock(self, fault: Fault) -> None:
        """The clock of a worker's machine jumps: by seconds, a minute or an hour, ahead or back."""
        posts = [(post, post.clock) for post in self.fleet.workers if post.clock is not None]
        if not posts:
            self._leave_out("clock", "libfaketime is missing: make tools")
            return
        post, file = fault.pick(posts)
        seconds = [-3600, -60, -2, 0, 2, 60, 3600][int(fault.dice[1] * 7)]
        self._say("clock", target=post.name, seconds=seconds)
        file.write_text(f"{seconds:+}\n")

    # The network.

    def cut(self, fault: Fault) -> None:
        proxy: Proxy = fault.pick(self.fleet.proxies())
        self._say("cut", connections=len(proxy))
        proxy.cut()

    def cut_at_commit(self, fault: Fault) -> None:
        post: Post = fault.pick(self.fleet.posts)
        texts = list(COMMITS.get(post.name.partition("-")[0], WORKERS_COMMITS))
        text = fault.pick(texts, 1)
        when: When = "before" if fault.dice[2] < 0.5 else "after"
        self._traps.append((post.proxy.trap(text, when), post.name))

    def delay(self, fault: Fault) -> None:
        proxy: Proxy = fault.pick(self.fleet.proxies())
        lasts = fault.between(1, 4)
        self._say("delay", lasts)
        proxy.delay = 0.03
        self._later(lasts, lambda: setattr(proxy, "delay", 0.0))

    def swallow(self, fault: Fault) -> None:
        post: Post = fault.pick(self.fleet.posts)
        lasts = fault.between(1, 5)
        self._say("swallow", lasts + 12)
        post.proxy.swallow()
        self._later(lasts, post.proxy.heal)
        if post in self.fleet.clients:
            # The workers notice by themselves that the server does not answer; a plain client would wait for ever.
            self._later(lasts + 5, post.proxy.cut)

    def refuse(self, fault: Fault) -> None:
        proxy: Proxy = fault.pick(self.fleet.proxies())
        lasts = fault.between(0.5, 3)
        self._say("refuse", lasts)
        proxy.close()
        self._later(lasts, proxy.open)

    # The server.

    def crash(self, fault: Fault) -> bool | None:
        if self._disk_is_full:
            return False  # it would not come up
        all_of_it = fault.dice[0] < 0.5
        self._say("crash", 5.0, all_of_it=all_of_it)
        self.server.kill(all_of_it=all_of_it)
        seconds = self.server.recover()
        self.recoveries.append(seconds)
        self.recorder.info("recovered", seconds=seconds)
        return None

    def terminate(self, fault: Fault) -> bool | None:
        with self._session() as session:
            pids = session.execute(f"SELECT pid FROM pg_stat_activity WHERE {OTHERS} ORDER BY pid").fetchall()
            if not pids:
                return False
            [pid] = fault.pick(pids)
            self._say("terminate", backend=pid)
            session.execute("SELECT pg_terminate_backend(%s)", (pid,))
        return None

    def lock(self, fault: Fault) -> None:
        """Lock the archive, or messages that are leased, and keep the lock for a while."""
        lasts = fault.between(0.5, 2)
        session = self._session()
        self._say("lock", lasts)
        session.execute("BEGIN")
        if fault.dice[0] < 0.5:
            session.execute("LOCK TABLE pgqueue_archived_message IN SHARE MODE")
        else:
            session.execute("SELECT FROM pgqueue_message WHERE status = 2 LIMIT 20 FOR UPDATE SKIP LOCKED")
        self._later(lasts, session.close)

    def timeouts(self, fault: Fault) -> None:
        """Time-outs of the server that are far too short for anything."""
        lasts = fault.between(1, 4)
        limit = "30 ms" if fault.dice[0] < 0.5 else "5 ms"
        with self._session() as session:
            self._say("timeouts", lasts)
            session.execute(f"ALTER DATABASE {self.database} SET statement_timeout = '{limit}'")
            session.execute(f"ALTER DATABASE {self.database} SET lock_timeout = '5 ms'")
            session.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {OTHERS}")
        self._later(lasts, self._no_timeouts)

    def _no_timeouts(self) -> None:
        with self._session() as session:
            session.execute("SET statement_timeout = 0; SET lock_timeout = 0")
            session.execute(f"ALTER DATABASE {self.database} RESET ALL")
            session.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {OTHERS}")

    def exhaust(self, fault: Fault) -> None:
        """Take all connections, so that none is left."""
        lasts = fault.between(1, 4)
        self._say("exhaust", lasts)
        taken: list[psycopg.Connection[Any]] = []
        with suppress(psycopg.OperationalError):
            while len(taken) < 500:
                taken.append(self._session())
        self._later(lasts, partial(close_all, taken))

    def full_disk(self, fault: Fault) -> None:
        """Where the server keeps its data and its log of transactions. It may panic, and even not come up."""
        if self.server.disk is None:
            self._leave_out("full disk", "to mount a small disk needs root")
            return
        lasts = fault.between(2, 6)
        self._say("full disk", lasts + 5)
        self._disk_is_full = True
        self.server.fill_disk(int(fault.dice[2] * 4_000_000), panics=fault.dice[3] < 0.5)
        self._later(lasts, self._room_again)

    def _room_again(self) -> None:
        self.recoveries.append(self.server.free_disk())
        self._disk_is_full = False

    def migration(self, fault: Fault) -> None:
        """An upgrade, or back: all functions are replaced, and messages get a column."""
        self._say("migration", 10)
        process = start_migration(self.server.url(self.database), fault.pick(["", "zero"]))
        self._later(0.5, lambda: self._migrated(process))

    def _migrated(self, process: subprocess.Popen[bytes]) -> None:
        """It may fail, when another fault hits it; then nothing of it is there."""
        if process.poll() is None:
            self._later(0.5, lambda: self._migrated(process))
            return
        output = process.communicate()[0].decode(errors="replace")
        self.recorder.info("migrated", status=process.returncode, output=output[-300:])

    def _leave_out(self, kind: str, why: str) -> None:
        self.recorder.info("left out", kind=kind, why=why)

    def _session(self) -> psycopg.Connection[Any]:
        return self.server.connect(self.database)


def end(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def close_all(sessions: list[psycopg.Connection[Any]]) -> None:
    for session in sessions:
        session.close()
