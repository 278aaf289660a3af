"""Show in shared memory which leases a worker process holds and which messages it has begun, for its supervisor.

The supervisor extends these leases, also those of a process that hangs. A message has begun from the moment before its
handler starts until its settlement has committed. If the process dies in between, the attempt counts; a message that
has not begun was never started.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from django_pgqueue.delivery import Delivery

# More messages than any process holds at a time. The producer takes only as many as have a place.
MOST_PLACES = 16_384
# Seven numbers of 8 bytes: message id (0: free), started_at (0: it has not begun), deadline, ended_at (0: its handler
# has not ended), held_at (0: the lease is not held), and the two halves of the token.
PLACE_FIELDS = 7
BOARD_BYTES = MOST_PLACES * PLACE_FIELDS * 8
STARTED, DEADLINE, ENDED, HELD, HIGH, LOW = range(1, PLACE_FIELDS)
HALF_TOKEN = 2**64 - 1


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


class ShownLease(NamedTuple):
    """Hold a lease as the board shows it.

    ``id``: the message's id. ``token``: the number of the lease's UUID. ``held_at``: time.monotonic() before it was
    taken.
    """

    id: int
    token: int
    held_at: float


class Board:
    """Hold leases and begun messages of a worker process, for the process itself and for its supervisor.

    ``fd``: the file descriptor of the shared memory, see :meth:`shared`; None: memory of this process alone. One
    process writes, from any of its threads, and another reads. Numbers of 8 bytes are read and written in one piece.
    A message has one place, from the moment when its lease is held until it is neither held nor begun. ``closed``:
    whether :meth:`close` was called.
    """

    def __init__(self, fd: int | None = None) -> None:
        self.fd = fd
        self.closed = False
        memory = memoryview(mmap.mmap(-1 if fd is None else fd, BOARD_BYTES))
        self._ids = memory.cast("q")
        self._times = memory.cast("d")
        self._halves = memory.cast("Q")
        # The lowest places are used first, and stay in the processor's cache.
        self._free = list(range((MOST_PLACES - 1) * PLACE_FIELDS, -1, -PLACE_FIELDS))
        # By the identity of the delivery: a message may be here twice, if its first lease was lost.
        self._places: dict[int, int] = {}
        self._lock = threading.Lock()

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
        """Return how many more messages have a place."""
        return len(self._free)

    def hold(self, deliveries: Iterable[Delivery], since: float) -> None:
        """Show the leases of the deliveries. ``since``: time.monotonic() before they were taken.

        Deliveries without a free place are left out, so their leases will expire.
        """
        halves, times = self._halves, self._times
        with self._lock:
            for delivery, place in self._new_places(deliveries):
                token = 0 if delivery.token is None else delivery.token.int
                halves[place + HIGH], halves[place + LOW] = token >> 64, token & HALF_TOKEN
                times[place + HELD] = since
                # The id is written last, so that a reader that sees it sees the rest, too.
                self._ids[place] = delivery.id

    def release(self, deliveries: Iterable[Delivery]) -> None:
        """Show that the leases of the deliveries are not held any more. Those that have begun stay on the board."""
        with self._lock:
            for delivery, place in self._known_places(deliveries):
                self._times[place + HELD] = 0.0
                if not self._times[place + STARTED]:
                    self._clear(delivery, place)

    def begin(self, deliveries: Iterable[Delivery], deadline: float = math.inf) -> None:
        """Show that the handler of the deliveries runs from now on, until ``deadline`` (time.monotonic()).

        Deliveries without a free place are left out.
        """
        now = time.monotonic()
        with self._lock:
            missing = []
            for delivery in deliveries:
                place = self._places.get(id(delivery))
                if place is None:
                    missing.append(delivery)
                else:
                    self._begin(place, now, deadline)
            for delivery, place in self._new_places(missing):
                self._begin(place, now, deadline)
                self._ids[place] = delivery.id

    def end(self, deliveries: Iterable[Delivery]) -> None:
        """Show that the handler of the deliveries has ended. Those that are settled already (atomic) are skipped."""
        now = time.monotonic()
        with self._lock:
            for _, place in self._known_places(deliveries):
                self._times[place + ENDED] = now

    def settle(self, deliveries: Iterable[Delivery]) -> None:
        """Remove the deliveries, because their settlement has committed or their lease is lost."""
        with self._lock:
            for delivery, place in self._known_places(deliveries):
                self._clear(delivery, place)

    def give_up(self, deliveries: Iterable[Delivery]) -> None:
        """Leave the deliveries on the board for good, because their settlement failed and their leases will expire.

        Those that have not begun leave the board.
        """
        with self._lock:
            for delivery, place in self._known_places(deliveries):
                if self._times[place + STARTED]:
                    self._times[place + HELD] = 0.0
                    self._times[place + ENDED] = math.inf
                    del self._places[id(delivery)]
                else:
                    self._clear(delivery, place)

    def begun(self) -> list[Begun]:
        """Return the messages that have begun and are not settled, in no particular order."""
        times, found = self._times, []
        for message, place in self._shown():
            begun = Begun(message, times[place + STARTED], times[place + DEADLINE], times[place + ENDED])
            # Otherwise the place was given to another message in the meantime.
            if begun.started_at and self._ids[place] == message:
                found.append(begun)
        return found

    def running(self) -> list[Begun]:
        """Return the messages that run, in no particular order."""
        return [begun for begun in self.begun() if not begun.ended_at]

    def leases(self) -> list[ShownLease]:
        """Return the leases that are held, in no particular order."""
        halves, found = self._halves, []
        for message, place in self._shown():
            token, held_at = halves[place + HIGH] << 64 | halves[place + LOW], self._times[place + HELD]
            if held_at and self._ids[place] == message:
                found.append(ShownLease(message, token, held_at))
        return found

    def close(self) -> None:
        """Close the file descriptor of a shared board. What the board shows can still be read."""
        self.closed = True
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None

    def _new_places(self, deliveries: Iterable[Delivery]) -> Iterator[tuple[Delivery, int]]:
        for delivery in deliveries:
            if not self._free:
                return
            place = self._places[id(delivery)] = self._free.pop()
            yield delivery, place

    def _known_places(self, deliveries: Iterable[Delivery]) -> Iterator[tuple[Delivery, int]]:
        for delivery in deliveries:
            place = self._places.get(id(delivery))
            if place is not None:
                yield delivery, place

    def _begin(self, place: int, now: float, deadline: float) -> None:
        self._times[place + DEADLINE] = deadline
        self._times[place + ENDED] = 0.0
        self._times[place + STARTED] = now

    def _clear(self, delivery: Delivery, place: int) -> None:
        self._ids[place] = 0
        self._times[place + STARTED] = self._times[place + HELD] = 0.0
        del self._places[id(delivery)]
        self._free.append(place)

    def _shown(self) -> Iterator[tuple[int, int]]:
        """Yield the id and the place of each message on the board."""
        for number, message in enumerate(self._ids[::PLACE_FIELDS].tolist()):
            if message:
                yield message, number * PLACE_FIELDS


def _temporary_file() -> int:
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
