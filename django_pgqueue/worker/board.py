"""Hold the leases of a worker process, and show them and the messages that it has begun in shared memory.

The lease keeper reads the board and extends the leases: in the supervisor, which does so for a process that hangs, too,
or in a thread of a worker without one. A message has begun from the moment before its handler starts until its
settlement has committed. If the process dies in between, the attempt counts; a message that has not begun was never
started.
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
from django_pgqueue.worker import numbers

# Seven numbers of 8 bytes: message id (0: free), started_at (0: it has not begun), deadline, ended_at (0: its handler
# has not ended), held_at (0: the lease is not held), and the two halves of the token.
PLACE_FIELDS = 7
HALF_TOKEN = 2**64 - 1
BOARD_BYTES = numbers.MOST_PLACES * PLACE_FIELDS * 8
STARTED, DEADLINE, ENDED, HELD, HIGH, LOW = range(1, PLACE_FIELDS)


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
    """Hold leases and begun messages of a worker process, for the process itself and for the lease keeper.

    ``fd``: the file descriptor of the shared memory, see :meth:`shared`; None: memory of this process alone. One
    process writes, from any of its threads, and another reads. Numbers of 8 bytes are read and written in one piece.
    A message has one place, from the moment when its lease is held until it is neither held nor begun. Its length is
    the number of leases that are held. ``closed``: whether :meth:`close` was called.
    """

    def __init__(self, fd: int | None = None) -> None:
        self.fd = fd
        self.closed = False
        memory = memoryview(mmap.mmap(-1 if fd is None else fd, BOARD_BYTES))
        self._ids = memory.cast("q")
        self._times = memory.cast("d")
        self._halves = memory.cast("Q")
        # The lowest places are used first, and stay in the processor's cache.
        self._free = list(range((numbers.MOST_PLACES - 1) * PLACE_FIELDS, -1, -PLACE_FIELDS))
        # By the identity of the delivery: a message may be here twice, if its first lease was lost.
        self._places: dict[int, int] = {}
        # The deliveries whose leases are held, by the id of the message, and the ids of those that are being settled.
        self._held: dict[int, Delivery] = {}
        self._settling: set[int] = set()
        self._lock = threading.Lock()

    @classmethod
    def shared(cls) -> Board:
        """Return a new board whose ``fd`` a child process can inherit. :meth:`close` closes the descriptor."""
        fd = os.memfd_create("pgqueue-board") if hasattr(os, "memfd_create") else _temporary_file()
        os.ftruncate(fd, BOARD_BYTES)
        return cls(fd)

    def __len__(self) -> int:
        return len(self._held)

    @property
    def free(self) -> int:
        """Return how many more messages have a place."""
        return len(self._free)

    def hold(self, deliveries: Iterable[Delivery], since: float) -> list[Delivery]:
        """Hold the leases of the deliveries. ``since``: time.monotonic() before they were taken.

        Returns deliveries whose leases are lost, because their message has come again by another lease.
        """
        halves, times, lost = self._halves, self._times, []
        with self._lock:
            for delivery in deliveries:
                earlier = self._held.get(delivery.id)
                if earlier is not None:
                    # Its lease has ended: it is lost, or it was settled a moment ago.
                    if delivery.id not in self._settling:
                        lost.append(earlier)
                    self._let_go(earlier)
                self._held[delivery.id] = delivery
                if self._free:
                    place = self._places[id(delivery)] = self._free.pop()
                    token = 0 if delivery.token is None else delivery.token.int
                    halves[place + HIGH], halves[place + LOW] = token >> 64, token & HALF_TOKEN
                    times[place + HELD] = since
                    # The id is written last, so that a reader that sees it sees the rest, too.
                    self._ids[place] = delivery.id
        return lost

    def holds(self, delivery: Delivery) -> bool:
        """Return whether this lease is held."""
        return self._held.get(delivery.id) is delivery

    def begin(self, deliveries: Iterable[Delivery], deadline: float = math.inf) -> None:
        """Show that the handler of the deliveries runs from now on, until ``deadline`` (time.monotonic()).

        Deliveries without a free place are left out.
        """
        now, times = time.monotonic(), self._times
        with self._lock:
            for delivery in deliveries:
                place = self._places.get(id(delivery))
                if place is None:  # its lease was lost a moment ago
                    if not self._free:
                        continue
                    place = self._places[id(delivery)] = self._free.pop()
                times[place + DEADLINE] = deadline
                times[place + ENDED] = 0.0
                times[place + STARTED] = now
                self._ids[place] = delivery.id

    def end(self, deliveries: Iterable[Delivery]) -> None:
        """Show that the handler of the deliveries has ended. Those that are settled already (atomic) are skipped."""
        now = time.monotonic()
        with self._lock:
            for delivery in deliveries:
                if (place := self._places.get(id(delivery))) is not None:
                    self._times[place + ENDED] = now

    def settling(self, deliveries: Iterable[Delivery], now: bool = True) -> None:
        """Do not report the leases as lost while they are settled (``now``), or do so again.

        A heartbeat after the settlement does not find them. One before it extends them: the settlement may wait.
        """
        with self._lock:
            change = self._settling.add if now else self._settling.discard
            for delivery in deliveries:
                if self._held.get(delivery.id) is delivery:
                    change(delivery.id)

    def settle(self, deliveries: Iterable[Delivery]) -> list[Delivery]:
        """Remove the deliveries, because their settlement has committed or their lease is lost.

        Returns those whose leases were held until now.
        """
        with self._lock:
            return [delivery for delivery in deliveries if self._let_go(delivery, clear=True)]

    def give_up(self, deliveries: Iterable[Delivery]) -> None:
        """Leave the deliveries on the board for good, because their settlement failed and their leases will expire.

        Those that have not begun leave the board.
        """
        with self._lock:
            for delivery in deliveries:
                self._let_go(delivery)
                if (place := self._places.pop(id(delivery), None)) is not None:
                    self._times[place + ENDED] = math.inf

    def lost(self, leases: Iterable[tuple[int, int]]) -> list[Delivery]:
        """Release leases that a heartbeat did not find, and return their deliveries.

        ``leases``: ids and the numbers of their tokens. Those that are being settled are left out, because the
        heartbeat may have come after the settlement.
        """
        with self._lock:
            lost = [delivery for delivery in self._known(leases) if delivery.id not in self._settling]
            for delivery in lost:
                self._let_go(delivery)
        return lost

    def known(self, leases: Iterable[tuple[int, int]]) -> list[Delivery]:
        """Return the deliveries whose leases are held. ``leases``: ids and the numbers of their tokens."""
        with self._lock:
            return self._known(leases)

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

    def _let_go(self, delivery: Delivery, *, clear: bool = False) -> bool:
        """Hold the lease no longer; remove the delivery from the board if it has not begun, or with ``clear``.

        Returns whether the lease was held.
        """
        held = self._held.get(delivery.id) is delivery
        if held:
            del self._held[delivery.id]
            self._settling.discard(delivery.id)
        place = self._places.get(id(delivery))
        if place is not None:
            self._times[place + HELD] = 0.0
            if clear or not self._times[place + STARTED]:
                self._ids[place] = 0
                self._times[place + STARTED] = 0.0
                del self._places[id(delivery)]
                self._free.append(place)
        return held

    def _known(self, leases: Iterable[tuple[int, int]]) -> list[Delivery]:
        found = [(self._held.get(message), token) for message, token in leases]
        return [delivery for delivery, token in found if delivery is not None and int(delivery.token or 0) == token]

    def _shown(self) -> Iterator[tuple[int, int]]:
        """Yield the id and the place of each message on the board."""
        for number, message in enumerate(self._ids[::PLACE_FIELDS].tolist()):
            if message:
                yield message, number * PLACE_FIELDS


def _temporary_file() -> int:
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
