"""Order keys in the simulation, by the rules of pgqueue_first_of_key: one message of a key after the other."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from django_pgqueue.spark.simulate.lane import Ready, SimulatedLane, SimulatedMessage


class SimulatedKey:
    """An order key of a channel. ``coming``: the ids that are not settled; ``holder``: the message that was delivered
    and is not settled; ``aside``: the messages that wait for their turn, by id.
    """

    __slots__ = ("aside", "coming", "holder")

    def __init__(self) -> None:
        self.coming: list[int] = []
        self.holder: int | None = None
        self.aside: dict[int, tuple[SimulatedLane, Ready]] = {}


class SimulatedKeys:
    """The order keys of all channels. A key changes nothing in an ordered channel."""

    def __init__(self) -> None:
        self._keys: dict[tuple[str, str], SimulatedKey] = {}

    def enqueue(self, message: SimulatedMessage) -> None:
        """Give a message its place behind those of its key that came before; it may be due later."""
        if message.key is not None:
            key = self._keys.setdefault((message.channel, message.key), SimulatedKey())
            heapq.heappush(key.coming, message.id)

    def is_first(self, message: SimulatedMessage) -> bool:
        """Return whether the message may be delivered: it was delivered before, or no other one was and it is next."""
        if message.key is None:
            return True
        key = self._keys[message.channel, message.key]
        return message.id == (key.coming[0] if key.holder is None else key.holder)

    def set_aside(self, lane: SimulatedLane, entry: Ready) -> None:
        """Keep a message apart until the one before it is settled. It blocks no other message of its channel."""
        message = entry[3]
        self._keys[message.channel, message.key or ""].aside[message.id] = (lane, entry)

    def deliver(self, message: SimulatedMessage) -> None:
        """Let the message hold its key until it is settled for good."""
        if message.key is not None:
            self._keys[message.channel, message.key].holder = message.id

    def settle(self, message: SimulatedMessage) -> tuple[SimulatedLane, Ready] | None:
        """Forget a message that is settled for good. Returns the next one of its key, if it was set aside."""
        if message.key is None:
            return None
        name = (message.channel, message.key)
        key = self._keys[name]
        key.holder = None
        if key.coming[0] == message.id:
            heapq.heappop(key.coming)
        else:  # one that was enqueued before it came later, by its transaction
            key.coming.remove(message.id)
            heapq.heapify(key.coming)
        if not key.coming:
            del self._keys[name]
            return None
        return key.aside.pop(key.coming[0], None)

    def left(self) -> Iterator[str]:
        """Yield the channel of each message that waits still."""
        for (channel, _), key in self._keys.items():
            yield from (channel for _ in key.aside)
