"""Wake sleeping threads, and handle signals: the first asks the worker to stop, the second ends the process at once."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Alarm:
    """Wake one thread, like a threading.Event, which cannot wait for a socket at the same time.

    It has no lock, on which a signal handler would deadlock that runs while its thread holds it.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        # Not before: another thread may write into the pipe at any time.
        weakref.finalize(self, _close, self._reader, self._writer)
        self._set = self._written = False

    def is_set(self) -> bool:
        """Return whether it was set since the last :meth:`clear`."""
        return self._set

    def set(self) -> None:
        """End the present sleep, or else the next one; from any thread."""
        if not self._set:
            self._set = self._written = True
            with suppress(BlockingIOError):  # the pipe is full, so the sleeper wakes all the same
                os.write(self._writer, b"x")

    def keep_awake(self) -> None:
        """End the next sleep; for the thread that sleeps."""
        self._set = True

    def clear(self) -> None:
        """Forget the calls of :meth:`set` until now; for the thread that sleeps."""
        if self._written:
            self._drain()
        # Cleared last: a call of set() after that writes again, so it is not lost.
        self._set = self._written = False

    def wait(self, seconds: float, socket: int | None = None) -> bool:
        """Sleep up to ``seconds``, until :meth:`set` is called or there is data on ``socket``.

        ``socket``: a file descriptor, or None. Returns whether there is data on it.
        """
        if self._set:
            return False
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        if socket is not None:
            poll.register(socket, select.POLLIN)
        ready = [fd for fd, _ in poll.poll(seconds * 1000)]
        if self._reader in ready and not self._set:
            # A call of set() that clear() has overtaken. If another one comes now, the flag is set.
            self._drain()
        return socket in ready

    def _drain(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._reader, 4096)


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


class Shutdown:
    """Hold the request to stop, which signals and other threads make and the main thread waits for.

    ``on_second``: called before a second signal ends the process. ``reason``: why to stop; empty until then.
    """

    def __init__(self, *, on_second: Callable[[], None] = lambda: None) -> None:
        self.reason = ""
        self._on_second = on_second
        self._signals = 0
        self._hangup = False
        self._terminal = has_terminal()
        self._alarm = Alarm()
        self._previous: dict[int, Any] = {}

    def request(self, reason: str) -> None:
        """Ask the main thread to stop; from any thread. A second reason is ignored."""
        self.reason = self.reason or reason
        self.nudge()

    def nudge(self) -> None:
        """Wake the main thread; from any thread."""
        self._alarm.set()

    def sleep(self, seconds: float) -> None:
        """Sleep for ``seconds`` or until the next nudge."""
        self._alarm.wait(seconds)
        # Before the caller looks at what there is to do, so that a nudge after that is not lost.
        self._alarm.clear()

    def install(self, *, hangup: bool = False) -> None:
        """Handle SIGTERM and SIGINT, and with ``hangup`` SIGHUP; does nothing outside of the main thread."""
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._signalled) for number in SIGNALS}
            if hangup:
                self._previous[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._hung_up)

    def take_hangup(self) -> bool:
        """Return whether a SIGHUP has arrived since the last call."""
        hangup, self._hangup = self._hangup, False
        return hangup

    def restore(self) -> None:
        """Restore the signal handlers that were there before :meth:`install`."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        self._signals += 1
        if self._signals > 1:
            if sys.__stderr__ is not None:
                text = f"{name} again: exit without cleaning up; the leases will expire\n"
                os.write(sys.__stderr__.fileno(), text.encode())
            self._on_second()
            os._exit(128 + number)
        self.request(name)

    def _hung_up(self, number: int, frame: FrameType | None) -> None:
        if self._terminal and not has_terminal():
            self.request("the terminal is gone")
        else:
            self._hangup = True
            self.nudge()


def has_terminal() -> bool:
    """Return whether this process has a controlling terminal."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True
