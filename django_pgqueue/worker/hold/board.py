"""Show in shared memory which messages a worker process has begun, so that its supervisor sees them when it hangs.

A message is on the board from the moment before its handler begins until its settlement has committed. If the process
dies in between, the attempt counts; a message that is not on the board was never started.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
import time
from collections.abc import Iterable
from typing import NamedTuple

from django_pgqueue.delivery import Delivery

# More messages than any process runs or settles at a time. The producer takes only as many as have a place.
MOST_PLACES = 16_384
# Four numbers of 8 bytes: message id (0: free), started_at, deadline, ended_at (0: its handler runs).
PLACE_FIELDS = 4
BOARD_BYTES = MOST_PLACES * PLACE_FIELDS * 8


class Begun(NamedTuple):
    """Hold a message that has begun. Times are ``time.monotonic()``, which is the same for all processes of a machine.

    ``started_at``: when its handler began. ``deadline``: when the handler is interrupted; infinite without a timeout.
    ``ended_at``: when it ended; 0 while it runs, infinite if the worker gave up the settlement, so that the lease will
    expire.
    """

    id: int
    started_at: float
    deadline: float
    ended_at: float


class Board:
    """Hold the begun messages of a worker process, for the process itself and for its supervisor.

    ``fd``: the file descriptor of the shared memory, see :meth:`shared`; None: memory of this process alone. One
    process writes, from any of its threads, and another reads. Numbers of 8 bytes are read and written in one piece.
    """

    def __init__(self, fd: int | None = None) -> None:
        self.fd = fd
        memory = memoryview(mmap.mmap(-1 if fd is None else fd, BOARD_BYTES))
        self._ids = memory.cast("q")
        self._times = memory.cast("d")
        # pop() and append() need no lock. The lowest places are used first, and stay in the processor's cache.
        self._free = list(range((MOST_PLACES - 1) * PLACE_FIELDS, -1, -PLACE_FIELDS))
        # By the identity of the delivery: a message may be here twice, if its first lease was lost.
        self._places: dict[int, int] = {}

    @classmethod
    def shared(cls) -> Board:
        """Return a new board whose ``fd`` a child process can inherit. :meth:`close` closes the descriptor."""
        fd = os.memfd_create("pgqueue-board") if hasattr(os, "memfd_create") else _temporary_file()
        os.ftruncate(fd, BOARD_BYTES)
        return cls(fd)

    def fileno(self) -> int:
        """Return the file descriptor of a :meth:`shared` board. Raises ValueError for any other."""
        if self.fd is None:
            raise ValueError("the board is not shared")
        return self.fd

    @property
    def free(self) -> int:
        """Return how many more messages may begin."""
        return len(self._free)

    def begin(self, deliveries: Iterable[Delivery], deadline: float = math.inf) -> None:
        """Show that the handler of the deliveries runs from now on, until ``deadline`` (time.monotonic()).

        Deliveries without a free place are left out.
        """
        now = time.monotonic()
        for delivery in deliveries:
            try:
                place = self._free.pop()
            except IndexError:
                break
            self._times[place + 1] = now
            self._times[place + 2] = deadline
            self._times[place + 3] = 0.0
            self._places[id(delivery)] = place
            # The id is written last, so that a reader that sees it sees its times, too.
            self._ids[place] = delivery.id

    def end(self, deliveries: Iterable[Delivery]) -> None:
        """Show that the handler of the deliveries has ended. Those that are settled already (atomic) are skipped."""
        now = time.monotonic()
        for delivery in deliveries:
            place = self._places.get(id(delivery))
            if place is not None:
                self._times[place + 3] = now

    def settle(self, deliveries: Iterable[Delivery]) -> None:
        """Remove the deliveries, because their settlement has committed or their lease is lost."""
        for delivery in deliveries:
            place = self._places.pop(id(delivery), None)
            if place is not None:
                self._ids[place] = 0
                self._free.append(place)

    def give_up(self, deliveries: Iterable[Delivery]) -> None:
        """Leave the deliveries on the board for good, because their settlement failed and their leases will expire."""
        for delivery in deliveries:
            place = self._places.pop(id(delivery), None)
            if place is not None:
                self._times[place + 3] = math.inf

    def begun(self) -> list[Begun]:
        """Return the messages that have begun and are not settled, in no particular order."""
        ids, times = self._ids, self._times
        found = []
        for number, message in enumerate(ids[::PLACE_FIELDS].tolist()):
            if message:
                place = number * PLACE_FIELDS
                begun = Begun(message, times[place + 1], times[place + 2], times[place + 3])
                # Otherwise the place was given to another message in the meantime.
                if ids[place] == message:
                    found.append(begun)
        return found

    def running(self) -> list[Begun]:
        """Return the messages that run, in no particular order."""
        return [begun for begun in self.begun() if not begun.ended_at]

    def close(self) -> None:
        """Close the file descriptor of a shared board."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None


def _temporary_file() -> int:
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
