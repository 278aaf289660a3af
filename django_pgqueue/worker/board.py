"""The board: shared memory in which a worker process shows what it runs, so that others see it even when it hangs."""

from __future__ import annotations

import math
import mmap
import os
import tempfile
import time
from collections.abc import Iterable
from typing import NamedTuple

from django_pgqueue.delivery import Delivery

# More messages than run at once in any sensible process, batches included; those above it are not shown.
PLACES = 16_384
# Three numbers of 8 bytes: message id (0: free), started_at, deadline.
FIELDS = 3
SIZE = PLACES * FIELDS * 8


class Running(NamedTuple):
    """A message and its handler's times: ``time.monotonic()``, which is the same for all processes of a machine."""

    id: int
    started_at: float
    deadline: float


class Board:
    """``fd``: of the shared memory, see :meth:`shared`; None: memory of this process alone.

    One process writes, from any of its threads, another reads. Numbers of 8 bytes are read and written in one piece.
    """

    def __init__(self, fd: int | None = None) -> None:
        self.fd = fd
        memory = memoryview(mmap.mmap(-1 if fd is None else fd, SIZE))
        self._ids = memory.cast("q")
        self._times = memory.cast("d")
        # pop() and append() need no lock. The lowest places are used first, and stay in the processor's cache.
        self._free = list(range((PLACES - 1) * FIELDS, -1, -FIELDS))

    @classmethod
    def shared(cls) -> Board:
        """A board whose ``fd`` may be given to another process. It is closed with :meth:`close`."""
        fd = os.memfd_create("pgqueue-board") if hasattr(os, "memfd_create") else _temporary_file()
        os.ftruncate(fd, SIZE)
        return cls(fd)

    def fileno(self) -> int:
        """Of a board that is :meth:`shared`."""
        if self.fd is None:
            raise ValueError("the board is not shared")
        return self.fd

    def begin(self, deliveries: Iterable[Delivery], deadline: float = math.inf) -> list[int]:
        """Show that they run from now on. Returns their places, for :meth:`end`; fewer when the board is full."""
        now = time.monotonic()
        places: list[int] = []
        for delivery in deliveries:
            try:
                place = self._free.pop()
            except IndexError:
                break
            self._times[place + 1] = now
            self._times[place + 2] = deadline
            # Last: whoever sees the id, sees its times.
            self._ids[place] = delivery.id
            places.append(place)
        return places

    def end(self, places: Iterable[int]) -> None:
        for place in places:
            self._ids[place] = 0
            self._free.append(place)

    def running(self) -> list[Running]:
        """What runs, in no particular order."""
        ids, times = self._ids, self._times
        found = []
        for number, message in enumerate(ids[::FIELDS].tolist()):
            if message:
                place = number * FIELDS
                running = Running(message, times[place + 1], times[place + 2])
                # Else the place was given to another message while we looked.
                if ids[place] == message:
                    found.append(running)
        return found

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None


def _temporary_file() -> int:
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
