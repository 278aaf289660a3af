"""Control a child of the supervisor: its process, the link to it, its state, and the place that it fills."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from django_pgqueue.worker import numbers
from django_pgqueue.worker.board import Board
from django_pgqueue.worker.link import Link, Orders
from django_pgqueue.worker.options import worker_name
from django_pgqueue.worker.registration import WorkerDescription, running_as_json

# The service manager's variables are meant for the supervisor, not for its children.
SERVICE_MANAGER_VARIABLES = {
    "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES",
}  # fmt: skip


class Child:
    """Start a child process, exchange frames with it, and hold its state for the supervisor.

    ``orders``: its first frame. ``on_frame``: called with the child and each frame that it sends. ``on_gone``: called
    when its end of the link is closed. Raises OSError if the process cannot be started. The process has a session of
    its own, so that Ctrl-C reaches the supervisor only, and the programs that its handlers have started can be killed
    with it.
    """

    def __init__(
        self, orders: Orders, *, on_frame: Callable[[Child, tuple[Any, ...]], None], on_gone: Callable[[], None]
    ) -> None:
        self.link, theirs = Link.pair()
        self.board = Board.shared()
        try:
            self.popen = start_process(theirs, self.board)
        except OSError:
            self.link.close()
            self.board.close()
            raise
        finally:
            os.close(theirs)
        self.pid = self.popen.pid
        self.name = worker_name(self.pid)
        self.started_at = self.heard_at = time.monotonic()
        self.report: WorkerDescription | None = None
        self.paused = False
        # Whether its unstarted messages were given back, because it is silent.
        self.relieved = False
        # The database's error in the child, and since when it fails; and when a message was last seen running.
        self.database_error = ""
        # Whether that is because the database lacks a right or an object, which no other process could do without.
        self.misfit = False
        self.database_error_at = self.ran_at = self.started_at
        # The part that makes no progress, for probes; and the same once the process must be replaced.
        self.stall = self.stalled = ""
        self.recycle_reason = ""
        # Why it was asked to stop, and when it must have ended (time.monotonic()).
        self.stop_reason = ""
        self.end_by = float("inf")
        # Why it is killed, and the ids of the messages that are the reason.
        self.kill_reason = ""
        self.culprits: frozenset[int] = frozenset()
        self._on_frame = on_frame
        self._on_gone = on_gone
        self._outbox: deque[tuple[Any, ...]] = deque()
        self._sending = threading.Lock()
        self._reader = threading.Thread(target=self._read, name=f"pgqueue-from-{self.pid}", daemon=True)
        self.link.send(replace(orders, options=replace(orders.options, name=self.name)))
        try:
            self._reader.start()
        except RuntimeError as error:
            # Without a thread that reads its frames, the child would seem silent for ever.
            self.kill_now()
            self.popen.wait()
            self.link.close()
            self.board.close()
            raise OSError(str(error)) from error

    @property
    def keys(self) -> dict[str, Any]:
        """Return the ``extra`` fields of its log lines."""
        return {"worker": self.name, "pid": self.pid}

    @property
    def ready(self) -> bool:
        """Return whether it has started, and serves its queues."""
        return self.report is not None

    @property
    def state(self) -> str:
        """Return starting, running or stopping."""
        return "stopping" if self.stop_reason else "running" if self.ready else "starting"

    def send(self, *frame: Any) -> None:
        """Send a frame to the child, or later what a child does not read that is stopped or hangs. Never blocks."""
        with self._sending:
            # One call to look for messages is as good as several.
            if frame != ("wake",) or frame not in self._outbox:
                self._outbox.append(frame)
        self.flush()

    def flush(self) -> None:
        """Send the frames that had to wait, as far as there is room for them; from any thread."""
        with self._sending:
            while self._outbox and not self.board.closed and self.link.has_room():
                self.link.send(*self._outbox.popleft())

    def send_leases(self, what: str, pairs: list[tuple[int, int]]) -> None:
        """Tell the child that leases are ``lost`` or ``cancelled``. ``pairs``: their ids and token numbers."""
        for first in range(0, len(pairs), numbers.LEASES_OF_A_FRAME):
            self.send(what, pairs[first : first + numbers.LEASES_OF_A_FRAME])

    def record_report(self, report: WorkerDescription, database_error: str, misfit: bool) -> None:
        """Record a report of the child. ``database_error``: the error of its database, or an empty text; ``misfit``:
        the database lacks a right or an object.
        """
        self.report = report
        self.misfit = misfit
        if database_error and not self.database_error:
            self.database_error_at = time.monotonic()
        self.database_error = database_error

    def pause(self, paused: bool) -> None:
        """Pause the child, or resume it, if that is not its state already."""
        if paused != self.paused:
            self.paused = paused
            self.send("pause", paused)

    def stop(self, reason: str, *, within: float) -> None:
        """Ask the child to stop; after ``within`` seconds the supervisor kills it. A second call does nothing."""
        if not self.stop_reason:
            self.stop_reason = reason
            self.end_by = time.monotonic() + within
            self.send("stop", reason)

    def kill(self, why: str, culprits: frozenset[int] = frozenset()) -> None:
        """Have the child write the stacks of its threads to stderr, and then kill it and its process group.

        ``why``: the reason in words. ``culprits``: ids of the messages that are the reason. A second call does nothing.
        """
        if self.kill_reason:
            return
        self.kill_reason, self.culprits = why, culprits
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGUSR1)
        killer = threading.Timer(numbers.LAST_WORDS_SECONDS, self.kill_now)
        killer.daemon = True
        try:
            killer.start()
        except RuntimeError:  # the system gives no more threads
            self.kill_now()

    def kill_now(self) -> None:
        """Kill the process group, unless the process has ended: another one may have its pid by then."""
        if self.popen.returncode is None:
            self._kill_group()

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def describe(self, supervisor: str) -> WorkerDescription:
        """Return the columns of its row: from its last report, and the running messages from the board."""
        return WorkerDescription(
            name=self.name,
            pid=self.pid,
            state=self.state,
            supervisor=supervisor,
            running=running_as_json(self.board.running()),
            totals=self.report.totals if self.report else {},
            memory_bytes=self.report.memory_bytes if self.report else None,
            handlers=self.report.handlers if self.report else None,
        )

    def exit_status(self) -> int | None:
        """Return the exit status: None while it runs, negative for the signal that ended it."""
        return self.popen.poll()

    def close(self, *, end_group: bool) -> None:
        """Read the remaining frames of a child that has ended, and close link and board.

        ``end_group``: kill the processes that its handlers have left running.
        """
        if end_group:
            self._kill_group()
        self.link.cut()
        self._reader.join()
        with self._sending:
            self.board.close()
            self.link.close()

    def _read(self) -> None:
        while (frame := self.link.receive()) is not None:
            self.heard_at = time.monotonic()
            self._on_frame(self, frame)
        self._on_gone()


def start_process(link: int, board: Board) -> subprocess.Popen[bytes]:
    """Start the process of a child, which inherits ``link``, a file descriptor, and ``board``. Raises OSError."""
    assert board.fd is not None
    flags = [f"-W{option}" for option in sys.warnoptions]
    flags += [f"-X{name}" if value is True else f"-X{name}={value}" for name, value in sys._xoptions.items()]
    inherited = {name: value for name, value in os.environ.items() if name not in SERVICE_MANAGER_VARIABLES}
    return subprocess.Popen(
        [sys.executable, *flags, "-m", "django_pgqueue.worker.child", str(link), str(board.fd)],
        pass_fds=(link, board.fd),
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        # The child must find its own module before it gets the orders.
        env={**inherited, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def describe_exit(status: int) -> str:
    """Return in words how a process ended. ``status``: its exit status, or the negative number of a signal."""
    if status >= 0:
        return f"exit status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
    return f"{name}, possibly killed by the OOM killer" if -status == signal.SIGKILL else name


class ProcessSlot:
    """Hold the child of one place, and its successor while it is replaced.

    ``holder``: the child that works. ``successor``: a new child that is starting; the holder works on until it is
    ready, so a start that fails, because new code does not load, stops nothing. ``spawn``: starts a child, or returns
    None. ``stop``: asks a child to end, with the reason. ``finished``: with --once and --drain, its work is done.
    """

    def __init__(self, *, spawn: Callable[[], Child | None], stop: Callable[[Child, str], None]) -> None:
        self.holder: Child | None = None
        self.successor: Child | None = None
        self.finished = False
        self._spawn = spawn
        self._stop = stop
        # Early deaths in a row, those of them that began no message, and when the next start is due.
        self.failures = self.failed_starts = 0
        self._start_at = 0.0

    @property
    def ready(self) -> bool:
        """Return whether the holder is ready."""
        return self.holder is not None and self.holder.ready

    @property
    def changing(self) -> bool:
        """Return whether the holder is to be replaced."""
        return self.successor is not None or (self.holder is not None and bool(self.holder.recycle_reason))

    def has(self, child: Child) -> bool:
        """Return whether the child is the holder or the successor."""
        return child is self.holder or child is self.successor

    def fill(self, *, may_replace: bool) -> None:
        """Start the holder if it is missing and due, or its successor, or let a ready successor take over.

        ``may_replace``: no other slot is replacing its holder.
        """
        if self.finished:
            return
        due = time.monotonic() >= self._start_at
        if self.holder is None:
            self.holder, self.successor = self.successor, None
        if self.holder is None:
            if due:
                self.holder = self._start()
        elif self.successor is not None:
            if self.successor.ready:
                self._stop(self.holder, self.holder.recycle_reason)
                self.holder, self.successor = self.successor, None
        elif self.holder.recycle_reason and due and may_replace:
            self.successor = self._start()

    def vacate(self, child: Child, *, worked: bool = False) -> float:
        """Record that the child has ended, for any reason. Returns the seconds until the next one may start.

        ``worked``: it had begun messages, so that one of them may be the cause, and not its start.
        """
        if child is self.holder:
            self.holder = None
        else:
            self.successor = None
        return self._delay(time.monotonic() - child.started_at, was_ready=child.ready, worked=worked)

    def replace(self, reason: str) -> None:
        """Have the holder replaced after a change, and forget failed starts, which may succeed now."""
        self.failures = self.failed_starts = 0
        self._start_at = 0.0
        if self.successor is not None:
            # The successor may have loaded the code before the change. If it is ready, it may run messages already.
            self._stop(self.successor, reason)
            if not self.successor.ready:
                self.successor.kill_now()
            self.successor = None
        if self.holder is not None:
            self.holder.recycle_reason = reason

    def _start(self) -> Child | None:
        child = self._spawn()
        if child is None:
            self._delay(0.0, was_ready=False, worked=False)
        return child

    def _delay(self, ran_seconds: float, *, was_ready: bool, worked: bool) -> float:
        """Record that a child has ended after ``ran_seconds``, and return the seconds until the next start.

        The first death of a child that was ready has no delay; then the delay doubles, with jitter: processes that die
        of one cause do not all start again at the same moment.
        """
        well = was_ready and ran_seconds > numbers.WELL_SECONDS
        self.failures = 1 if well else self.failures + 1
        self.failed_starts = 0 if well or worked else self.failed_starts + 1
        longest = numbers.LONGEST_WORK_DELAY_SECONDS if was_ready else numbers.LONGEST_START_DELAY_SECONDS
        delay = min(longest, numbers.FIRST_DELAY_SECONDS * float(2 ** min(self.failures - 1, 10))) * random.uniform(
            0.8, 1.0
        )
        if was_ready and self.failures == 1:
            delay = 0.0
        self._start_at = time.monotonic() + delay
        return delay
