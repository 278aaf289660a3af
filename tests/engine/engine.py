"""The verbs of the engine, as its tests call them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.support.sessions import Session


@dataclass(frozen=True, slots=True)
class Lease:
    """A message that was dequeued."""

    id: int
    channel: str
    token: Any
    attempts: int


@dataclass
class Engine:
    """An engine in a schema of its own. `session` is the one that calls use by default."""

    sessions: Callable[..., Session]
    channels: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.session = self.sessions()

    def value(self, query: str, *arguments: Any, session: Session | None = None) -> Any:
        row = (session or self.session).execute(query, arguments).fetchone()
        return row[0] if row else None

    def queue(self, name: str, *, fairness: str = "turns", most: int | None = None) -> int:
        return self.value("SELECT pgqueue_queue_make(%s, %s, %s)", name, fairness, most)

    def channel(
        self,
        name: str,
        *,
        queue: str = "default",
        weight: int = 1,
        most: int | None = None,
        every: str | None = None,
        burst: int = 1,
        ordered: bool = False,
    ) -> int:
        arguments = (queue, name, weight, most, every, burst, ordered)
        self.channels[name] = self.value(
            "SELECT pgqueue_channel_make(%s, %s, %s, %s, %s::interval, %s, %s)", *arguments
        )
        return self.channels[name]

    def limit(self, name: str, most: int | None = None, *, every: str | None = None, burst: int = 1) -> int:
        return self.value("SELECT pgqueue_meter_make(%s, true, %s, NULL, %s::interval, %s)", name, most, every, burst)

    def enqueue(
        self,
        channel: str,
        *,
        queue: str = "default",
        priority: int = 0,
        delay: str | None = None,
        key: str | None = None,
        limits: list[int] | None = None,
        cost: int | None = None,
        session: Session | None = None,
    ) -> int:
        arguments = (channel, queue, priority, delay, key, limits, cost)
        query = "SELECT id FROM pgqueue_enqueue('work', '{}', %s, %s, %s, %s::interval, %s, %s, %s)"
        return self.value(query, *arguments, session=session)

    def fill(self, channel: str, messages: int, *, limits: list[int] | None = None) -> None:
        """Enqueue by a plain INSERT."""
        query = "INSERT INTO pgqueue_message (channel_id, handler, limits) SELECT %s, 'work', %s"
        arguments = (self.channels[channel], limits, messages)
        self.session.execute(f"{query} FROM generate_series(1, %s)", arguments)

    def dequeue(
        self, limit: int = 1, *, queue: str = "default", lease: str = "10 minutes", session: Session | None = None
    ) -> list[Lease]:
        query = "SELECT id, channel, token, attempts FROM pgqueue_dequeue(%s, %s, %s::interval, 'worker')"
        return [Lease(*row) for row in (session or self.session).execute(query, (queue, limit, lease))]

    def complete(self, *leases: Lease, session: Session | None = None) -> None:
        ids, tokens = [lease.id for lease in leases], [lease.token for lease in leases]
        (session or self.session).execute("SELECT pgqueue_complete(%s, %s)", (ids, tokens))

    def retry(self, *leases: Lease, delay: str = "0") -> None:
        ids, tokens = [lease.id for lease in leases], [lease.token for lease in leases]
        self.session.execute("SELECT pgqueue_retry(%s, %s, %s::interval)", (ids, tokens, delay))

    def cancel(self, *ids: int, session: Session | None = None) -> None:
        (session or self.session).execute("SELECT pgqueue_cancel(%s)", (list(ids),))

    def tick(self, times: int = 1) -> None:
        for _ in range(times):
            self.session.execute("SELECT pgqueue_tick()")

    def served(self, rounds: int, limit: int) -> Counter[str]:
        """Dequeue and complete so many times; how many messages each channel got."""
        got: Counter[str] = Counter()
        for _ in range(rounds):
            leases = self.dequeue(limit)
            got.update(lease.channel for lease in leases)
            if leases:
                self.complete(*leases)
        return got

    def levels(self) -> dict[str, int]:
        """What counts against each meter that is not idle, with the notes that wait."""
        rows = self.session.execute(
            """
            SELECT m.name,
                (SELECT sum(l.running) FROM pgqueue_level AS l WHERE l.meter_id = m.id)
                - coalesce((SELECT sum(n.freed) FROM pgqueue_note AS n WHERE n.meter_id = m.id), 0)
            FROM pgqueue_meter AS m
            """
        )
        return {name: int(running) for name, running in rows if running}
