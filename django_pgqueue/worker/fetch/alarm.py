"""End the sleep of a thread: another thread calls, or data arrives on a socket."""

from __future__ import annotations

import os
import select
import weakref
from contextlib import suppress


class Alarm:
    """Wake one thread, like a threading.Event, which cannot wait for a socket at the same time."""

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
