"""Limit how many calls of a handler with ``concurrency`` run at once in this process."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from django_pgqueue import handlers
from django_pgqueue.delivery import Delivery
from django_pgqueue.handlers import Handler
from django_pgqueue.worker.run.pace import LONGEST_WAIT_SECONDS

# The bounds of the delay with which a message goes back to the queue.
SHORTEST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 1, 10
# The share of the old mean duration in the new one; the rest is the last duration.
OLD_DURATION_SHARE = 0.5


@dataclass(slots=True)
class HandlerState:
    """Hold the counts of one handler.

    ``running``: calls that run. ``here``: messages in this process. ``postponed``: messages that went back in a row.
    ``seconds``: the mean duration of a message. ``parked``: messages that wait for the end of a call.
    """

    running: int = 0
    here: int = 0
    postponed: int = 0
    seconds: float = 0.0
    parked: deque[Delivery] = field(default_factory=deque)

    def is_full(self, limit: int) -> bool:
        """Return whether no more messages may stay, of a handler of which ``limit`` may run at once."""
        soon = LONGEST_WAIT_SECONDS / self.seconds if self.seconds else 0
        return self.here >= limit * max(2, soon)


class HandlerLimits:
    """Hold at most limit × max(2, 0.02 s / mean duration) messages of a handler; the rest goes back to the queue.

    The dispatch, the buffer and the event loop of a worker share one. ``keep``: nothing goes back. It is safe for
    threads. Handlers without a limit never take the lock.
    """

    def __init__(self, *, keep: bool) -> None:
        self._keep = keep
        self._states: defaultdict[str, HandlerState] = defaultdict(HandlerState)
        self._lock = threading.Lock()

    def split(self, deliveries: list[Delivery]) -> tuple[list[Delivery], dict[int, list[Delivery]]]:
        """Return the messages that may stay, and those to return to the queue, by their delay in seconds."""
        names = {delivery.handler for delivery in deliveries}
        limits = {name: limit for name in names if (limit := concurrency_of(name)) is not None}
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

    def full(self) -> set[str]:
        """Return the names of the handlers of which no more messages may stay."""
        if not self._states:
            return set()
        here = [(name, state) for name, state in tuple(self._states.items()) if state.here]
        return {name for name, state in here if (limit := concurrency_of(name)) and state.is_full(limit)}

    def _stays(self, state: HandlerState, limit: int) -> bool:
        if not self._keep and state.is_full(limit):
            state.postponed += 1
            return False
        state.here += 1
        return True

    def _seconds(self, name: str, limit: int) -> int:
        """Return a rough number of seconds until the message would start."""
        state = self._states[name]
        return round(min(LONGEST_DELAY_SECONDS, max(SHORTEST_DELAY_SECONDS, state.postponed * state.seconds / limit)))

    def start(self, handler: Handler, delivery: Delivery) -> bool:
        """Return whether the message may run now. If not, it is parked here until a call of the handler ends."""
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
        """Record the end of a call that took ``seconds`` for ``count`` messages, and return those that may run now."""
        if handler.concurrency is None:
            return []
        with self._lock:
            state = self._states[handler.name]
            state.running -= 1
            state.here -= count
            each, before = seconds / count, state.seconds
            state.seconds = OLD_DURATION_SHARE * before + (1 - OLD_DURATION_SHARE) * each if before else each
            parked = state.parked
            return [parked.popleft() for _ in range(min(len(parked), handler.batch or 1))]

    def parked(self) -> int:
        """Return how many messages are parked, of all handlers."""
        return sum(len(state.parked) for state in tuple(self._states.values())) if self._states else 0

    def drop(self, lost: Delivery) -> bool:
        """Remove a message whose lease is lost. Returns whether it was parked."""
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
        """Stop counting a message that has left this process and was not parked."""
        state = self._states.get(lost.handler)
        if state is not None:
            with self._lock:
                state.here -= 1

    def withdraw(self, matches: Callable[[Delivery], bool]) -> list[Delivery]:
        """Remove the parked messages that match, and return them."""
        found: list[Delivery] = []
        with self._lock:
            for state in self._states.values():
                taken = [delivery for delivery in state.parked if matches(delivery)]
                for delivery in taken:
                    state.parked.remove(delivery)
                state.here -= len(taken)
                found += taken
        return found

    def clear(self) -> list[Delivery]:
        """Remove the parked messages, and return them."""
        with self._lock:
            left = [delivery for state in self._states.values() for delivery in state.parked]
            for state in self._states.values():
                state.parked.clear()
        return left


def concurrency_of(name: str) -> int | None:
    """Return how many messages of the handler may run at once: its concurrency times its batch; None: no limit."""
    handler = handlers.find(name)
    return None if handler is None or handler.concurrency is None else handler.concurrency * (handler.batch or 1)
