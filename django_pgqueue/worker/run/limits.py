"""Limits: handlers of which only so many calls may run at once in this process."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field

from django_pgqueue import handlers
from django_pgqueue.delivery import Delivery
from django_pgqueue.handlers import Handler
from django_pgqueue.worker.run.pace import LONGEST_WAIT

# Seconds for which a message goes back that would have to wait here.
SHORTEST, LONGEST = 1, 10
# How much an old duration weighs against the last one.
INERTIA = 0.5


@dataclass(slots=True)
class HandlerState:
    """The counts of one handler. ``here``: messages in this process; ``postponed``: returned in a row."""

    running: int = 0
    here: int = 0
    postponed: int = 0
    seconds: float = 0.0
    parked: deque[Delivery] = field(default_factory=deque)


class HandlerLimits:
    """Holds at most limit × max(2, 0.2 s / mean duration) messages of a handler; the rest are returned.

    ``keep``: nothing is returned. Safe for threads. Handlers without a limit never take the lock.
    """

    def __init__(self, *, keep: bool) -> None:
        self._keep = keep
        self._states: defaultdict[str, HandlerState] = defaultdict(HandlerState)
        self._lock = threading.Lock()

    def split(self, deliveries: list[Delivery]) -> tuple[list[Delivery], dict[int, list[Delivery]]]:
        """Return the messages that may stay, and those to return to the queue, by their delay in seconds."""
        names = {delivery.handler for delivery in deliveries}
        limits = {name: limit for name in names if (limit := limit_of(name)) is not None}
        if not limits:
            return deliveries, {}
        stay: list[Delivery] = []
        back: defaultdict[int, list[Delivery]] = defaultdict(list)
        before = Counter(delivery.handler for delivery in deliveries)
        with self._lock:
            for delivery in deliveries:
                name = delivery.handler
                if name not in limits or self._stays(self._states[name], limits[name]):
                    stay.append(delivery)
                else:
                    back[self._seconds(name, limits[name])].append(delivery)
            kept = Counter(delivery.handler for delivery in stay)
            for name in limits:
                if kept[name] == before[name]:
                    self._states[name].postponed = 0
        return stay, back

    def _stays(self, state: HandlerState, limit: int) -> bool:
        soon = LONGEST_WAIT / state.seconds if state.seconds else 0
        if not self._keep and state.here >= limit * max(2, soon):
            state.postponed += 1
            return False
        state.here += 1
        return True

    def _seconds(self, name: str, limit: int) -> int:
        """Return the seconds until the message would start, roughly."""
        state = self._states[name]
        return round(min(LONGEST, max(SHORTEST, state.postponed * state.seconds / limit)))

    def start(self, handler: Handler, delivery: Delivery) -> bool:
        """Return whether the message may run now. If not, it is kept here until its turn comes."""
        if handler.concurrency is None:
            return True
        with self._lock:
            state = self._states[handler.name]
            if state.running >= handler.concurrency:
                state.parked.append(delivery)
                return False
            state.running += 1
        return True

    def end(self, handler: Handler, count: int, seconds: float) -> list[Delivery]:
        """Record the end of a call with ``count`` messages. Returns the messages that may run now."""
        if handler.concurrency is None:
            return []
        with self._lock:
            state = self._states[handler.name]
            state.running -= 1
            state.here -= count
            state.seconds = INERTIA * state.seconds + (1 - INERTIA) * seconds / count if state.seconds else seconds
            parked = state.parked
            return [parked.popleft() for _ in range(min(len(parked), handler.batch or 1))]

    def parked(self) -> int:
        return sum(len(state.parked) for state in tuple(self._states.values())) if self._states else 0

    def drop(self, lost: Delivery) -> bool:
        """Forget a message that this worker has lost. Returns whether it waited for its turn."""
        state = self._states.get(lost.handler)
        if state is None:
            return False
        with self._lock:
            for place, delivery in enumerate(state.parked):
                if delivery is lost:
                    del state.parked[place]
                    state.here -= 1
                    return True
        return False

    def gone(self, lost: Delivery) -> None:
        """Stop counting a message that has left this process without waiting here."""
        state = self._states.get(lost.handler)
        if state is not None:
            with self._lock:
                state.here -= 1

    def clear(self) -> list[Delivery]:
        """Forget the messages that are kept here. Returns them."""
        with self._lock:
            left = [delivery for state in self._states.values() for delivery in state.parked]
            for state in self._states.values():
                state.parked.clear()
        return left


def limit_of(name: str) -> int | None:
    """Return how many messages of the handler may run at once; None: no limit."""
    handler = handlers.find(name)
    return None if handler is None or handler.concurrency is None else handler.concurrency * (handler.batch or 1)
