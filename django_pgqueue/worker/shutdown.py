"""Signals: the first asks the worker to stop, the second ends the process at once."""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import threading
from contextlib import suppress
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Shutdown:
    """A flag that signals and other threads raise, and that the main thread waits for.

    Not an Event: a handler that runs while the main thread holds the Event's lock would wait for itself.
    """

    def __init__(self) -> None:
        self.reason = ""
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._previous: dict[int, Any] = {}

    def request(self, reason: str) -> None:
        self.reason = self.reason or reason
        with suppress(BlockingIOError):  # it is full of wake-ups
            self._writer.send(b"x")

    def wait(self) -> str:
        """Block until somebody asks to stop. Returns the reason."""
        while not self.reason:
            select.select([self._reader], [], [])
        return self.reason

    def install(self) -> None:
        """Catch the signals; in the main thread only, elsewhere there are none."""
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._signalled) for number in SIGNALS}

    def restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def close(self) -> None:
        self._reader.close()
        self._writer.close()

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        if self.reason:
            os.write(
                sys.__stderr__.fileno(), f"{name} again: exit without cleaning up; the leases will expire\n".encode()
            )
            os._exit(128 + number)
        self.request(name)
