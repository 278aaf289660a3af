"""A child of the supervisor: the process, the link to it, and what is known about it."""

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

# Seconds between the request to say where its threads are, and the end of a child that does not end by itself.
LAST_WORDS = 0.3


class Child:
    """Starts the process. ``on_frame`` is called with what it sends, ``on_gone`` when nothing more will come.

    It has a session of its own, so that Ctrl-C reaches the supervisor only, and what its handlers have started can be
    ended with it.
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
        # Others have been given what it had not started.
        self.relieved = False
        # The error that the database gives the process, and since when; when a message was last seen running.
        self.trouble = ""
        self.trouble_at = self.ran_at = self.started_at
        # The work that makes no progress, for probes; and the reason why the process must be replaced.
        self.stall = self.stalled = ""
        self.recycle_reason = ""
        # Why, and since when, it has been asked to stop; and by when it must have ended.
        self.stop_reason = ""
        self.end_by = float("inf")
        # Why it is killed, and which messages are to blame.
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
            # Without a thread that reads, the child would live and never be heard. It ends when its link is closed.
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
        return "stopping" if self.stop_reason else "running" if self.ready else "starting"

    def send(self, *frame: Any) -> None:
        """Send a frame to the child. Never blocks: a child may be stopped, or hold its GIL."""
        self._outbox.put(frame)

    def record_report(self, report: WorkerDescription, trouble: str) -> None:
        """Record a report of the child. ``trouble``: the error that its database gives, or an empty text."""
        self.report = report
        if trouble and not self.trouble:
            self.trouble_at = time.monotonic()
        self.trouble = trouble

    def wake(self) -> None:
        # One at a time, so that the outbox of a child that does not read does not grow.
        if not self._wake_is_due:
            self._wake_is_due = True
            self.send("wake")

    def pause(self, paused: bool) -> None:
        if paused != self.paused:
            self.paused = paused
            self.send("pause", paused)

    def stop(self, reason: str, *, within: float) -> None:
        """Ask the child to end its work; the supervisor kills it after ``within`` seconds."""
        if not self.stop_reason:
            self.stop_reason = reason
            self.end_by = time.monotonic() + within
            self.send("stop", reason)

    def kill(self, why: str, culprits: frozenset[int] = frozenset()) -> None:
        """Let each of its threads say where it is, then kill it and all that it has started."""
        if self.kill_reason:
            return
        self.kill_reason, self.culprits = why, culprits
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGUSR1)
        killer = threading.Timer(LAST_WORDS, self.kill_now)
        killer.daemon = True
        try:
            killer.start()
        except RuntimeError:  # there are no more threads
            self.kill_now()

    def kill_now(self) -> None:
        """Kill the process group, unless the process has ended: its pid may belong to another one by then."""
        if self.popen.returncode is None:
            self._kill_group()

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def describe(self, supervisor: str) -> WorkerDescription:
        """Return its row, from its last report; the running messages come from the board, even when it hangs."""
        return WorkerDescription(
            name=self.name,
            pid=self.pid,
            state=self.state,
            supervisor=supervisor,
            running=running_as_json(self.board.running()),
            totals=self.report.totals if self.report else {},
            memory_bytes=self.report.memory_bytes if self.report else None,
        )

    def exit_status(self) -> int | None:
        """Return the exit status: None while it runs, negative for the signal that ended it."""
        return self.popen.poll()

    def close(self, *, end_group: bool) -> None:
        """After its end: hear the last of what it said, and forget it. ``end_group``: end what it has left running."""
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
    """Start the process with both file descriptors. Raises OSError."""
    return subprocess.Popen(
        child_command(link, board),
        pass_fds=(link, board),
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        env=child_environment(),
    )


def child_command(link: int, board: int) -> list[str]:
    return [*interpreter_command(), "-m", "django_pgqueue.worker.child", str(link), str(board)]
