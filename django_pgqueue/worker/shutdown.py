"""Handle signals: the first asks the worker to stop, the second ends the process at once."""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Shutdown:
    """Hold the request to stop, which signals and other threads make and the main thread waits for.

    ``on_second``: called before a second signal ends the process. ``reason``: why to stop; empty until then. It uses a
    socket and no threading.Event, because a signal handler that runs while the main thread holds the Event's lock would
    deadlock.
    """

    def __init__(self, *, on_second: Callable[[], None] = lambda: None) -> None:
        self.reason = ""
        self._on_second = on_second
        self._signals = 0
        self._hangup = False
        self._terminal = has_terminal()
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._previous: dict[int, Any] = {}

    def request(self, reason: str) -> None:
        """Ask the main thread to stop; from any thread. A second reason is ignored."""
        self.reason = self.reason or reason
        self.nudge()

    def nudge(self) -> None:
        """Wake the main thread; from any thread."""
        with suppress(OSError):  # the socket is full of wake-ups, or closed
            self._writer.send(b"x")

    def sleep(self, seconds: float | None = None) -> None:
        """Sleep for ``seconds`` or until the next nudge; without ``seconds``, only until a nudge."""
        select.select([self._reader], [], [], seconds)
        with suppress(BlockingIOError):
            self._reader.recv(1024)

    def wait(self) -> str:
        """Wait until a stop is requested. Returns the reason."""
        while not self.reason:
            self.sleep()
        return self.reason

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

    def close(self) -> None:
        """Close the sockets."""
        self._reader.close()
        self._writer.close()

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
