"""Control a child of the supervisor: its process, the link to it, and its state."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from queue import SimpleQueue
from typing import Any

from django_pgqueue.worker.hold.board import Board
from django_pgqueue.worker.link.orders import Orders
from django_pgqueue.worker.link.pipe import Link
from django_pgqueue.worker.link.spawn import child_environment, interpreter_command
from django_pgqueue.worker.operate.registration import WorkerDescription, running_as_json
from django_pgqueue.worker.options import worker_name

# The time in which a child that is to be killed writes the stacks of its threads to stderr.
LAST_WORDS_SECONDS = 0.3


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
            self.popen = start_process(theirs, self.board.fileno())
        except OSError:
            self.link.close()
            self.board.close()
            raise
        finally:
            os.close(theirs)
        self.pid = self.popen.pid
        self.name = worker_name(self.pid)
        self.started_at = self.heard_at = time.monotonic()
        self.ready = False
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
        self._outbox: SimpleQueue[tuple[Any, ...] | None] = SimpleQueue()
        self._wake_is_due = False
        self._reader = threading.Thread(target=self._read, name=f"pgqueue-from-{self.pid}", daemon=True)
        self._writer = threading.Thread(target=self._write, name=f"pgqueue-to-{self.pid}", daemon=True)
        self.send(replace(orders, options=replace(orders.options, name=self.name)))
        try:
            self._reader.start()
            self._writer.start()
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
    def state(self) -> str:
        """Return starting, running or stopping."""
        return "stopping" if self.stop_reason else "running" if self.ready else "starting"

    def send(self, *frame: Any) -> None:
        """Queue a frame for the child. Never blocks, although a child may be stopped or hold its GIL."""
        self._outbox.put(frame)

    def record_report(self, report: WorkerDescription, database_error: str, misfit: bool) -> None:
        """Record a report of the child. ``database_error``: the error of its database, or an empty text; ``misfit``:
        the database lacks a right or an object.
        """
        self.report = report
        self.misfit = misfit
        if database_error and not self.database_error:
            self.database_error_at = time.monotonic()
        self.database_error = database_error

    def wake(self) -> None:
        """Wake the child's producer. Only one such frame is queued at a time, so that the outbox does not grow."""
        if not self._wake_is_due:
            self._wake_is_due = True
            self.send("wake")

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
        killer = threading.Timer(LAST_WORDS_SECONDS, self.kill_now)
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
        self._outbox.put(None)
        self._reader.join()
        self._writer.join()
        self.link.close()
        self.board.close()

    def _read(self) -> None:
        while (frame := self.link.receive()) is not None:
            self.heard_at = time.monotonic()
            self._on_frame(self, frame)
        self._on_gone()

    def _write(self) -> None:
        while (frame := self._outbox.get()) is not None:
            if frame == ("wake",):
                self._wake_is_due = False
            self.link.send(*frame)


def start_process(link: int, board: int) -> subprocess.Popen[bytes]:
    """Start the process of a child, which inherits the file descriptors of link and board. Raises OSError."""
    return subprocess.Popen(
        child_command(link, board),
        pass_fds=(link, board),
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        env=child_environment(),
    )


def child_command(link: int, board: int) -> list[str]:
    """Return the command line of a child. ``link``, ``board``: file descriptors."""
    return [*interpreter_command(), "-m", "django_pgqueue.worker.child", str(link), str(board)]
