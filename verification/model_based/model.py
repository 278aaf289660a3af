"""The state of the model, and how the tables must look by it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

from .states import LEASED, READY, SCHEDULED, SWEPT, Archived, Channel, Dead, Message, Refused


class Anything:
    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "…"


ANYTHING = Anything()


@dataclass(slots=True)
class Model:
    """``given``: when a channel was served since its rate was set; ``busy``: until when its bucket may be empty.

    ``doubt``: the clock has gone back, so a channel with a rate may be served later than its rate says, until a prune.
    ``current``: the message of an ordered channel that was delivered last.
    ``issued``: every lease ever given, those of transactions that were rolled back, too.
    ``locked``: messages and dead letters that another transaction has touched; None: there is none.
    """

    now: int = 0
    latest: int = 0
    channels: dict[int, Channel] = field(default_factory=dict)
    messages: dict[int, Message] = field(default_factory=dict)
    archive: dict[int, Archived] = field(default_factory=dict)
    dead: dict[int, Dead] = field(default_factory=dict)
    paused: dict[str, bool] = field(default_factory=dict)
    given: dict[int, tuple[int, ...]] = field(default_factory=dict)
    busy: dict[int, int] = field(default_factory=dict)
    current: dict[int, int] = field(default_factory=dict)
    doubt: bool = False
    issued: list[tuple[int, str]] = field(default_factory=list)
    locked: frozenset[int] | None = None

    def copy(self) -> Model:
        """All values are immutable, so that a copy of each dictionary is enough."""
        parts: dict[str, Any] = {part.name: getattr(self, part.name) for part in fields(self)}
        parts |= {name: dict(value) for name, value in parts.items() if isinstance(value, dict)}
        return Model(**parts)

    def rolled_back_to(self, saved: Model) -> Model:
        """The clock goes on, also if a transaction rolls back; so does the memory of a worker about its leases."""
        back = saved.copy()
        back.now, back.latest, back.issued, back.doubt = self.now, self.latest, self.issued, self.doubt or saved.doubt
        if self.doubt:
            back.given = {}
        return back

    def set_clock(self, now: int) -> None:
        if now < self.now:
            self.doubt = True
            self.given = {}
        self.now = now
        self.latest = max(self.latest, now)

    def channel(self, name: str, queue: str) -> Channel:
        for channel in self.channels.values():
            if (channel.name, channel.queue) == (name, queue):
                return channel
        raise Refused("PGQ03")

    def live(self, channel: int) -> list[Message]:
        return [message for message in self.messages.values() if message.channel == channel]

    def free(self, number: int) -> bool:
        return self.locked is None or number not in self.locked

    def ready(self, channel: int) -> list[Message]:
        """Those that may be taken, in the order of service. An ordered channel ends what it has begun."""
        first = self.current.get(channel) if channel in self.channels and self.channels[channel].ordered else None
        found = [m for m in self.live(channel) if m.status == READY and self.free(m.id)]
        return sorted(found, key=lambda m: (m.id != first, m.place))

    def due(self, queue: str | None = None) -> list[int]:
        """Scheduled messages whose time has come; of this queue alone."""
        scheduled = [m for m in self.messages.values() if m.status == SCHEDULED and self.free(m.id)]
        return [m.id for m in scheduled if m.dequeue_at <= self.now and queue in (None, self.name_of(m)[0])]

    def expired(self, queue: str | None = None) -> list[int]:
        """Return the leases whose time is over and that no call is settling; of this queue alone."""
        over = [m for m in leased(self) if m.expires_at is not None and m.expires_at <= self.now]
        return [m.id for m in over if self.free(m.id) and queue in (None, self.name_of(m)[0])]

    def moments(self) -> list[int]:
        """When something of a message changes by itself."""
        known = [(m.dequeue_at, m.expires_at, m.held_until) for m in self.messages.values()]
        return [at for each in known for at in each if at is not None]

    def promote(self) -> int:
        due = self.due()
        for number in due:
            self.messages[number] = replace(self.messages[number], status=READY)
        return len(due)

    def name_of(self, message: Message) -> tuple[str, str]:
        channel = self.channels[message.channel]
        return (channel.queue, channel.name)

    def end(self, message: Message, outcome: str, result: Any = None, at: int | None = None) -> None:
        """To the archive, as far as the channel has it kept."""
        del self.messages[message.id]
        kept = self.channels[message.channel].archive
        if kept == "none":
            return
        if kept == "outcome":
            message = replace(message, number=None, state=None)
            result = result if isinstance(result, dict) else None
        when = self.now if at is None else at
        self.archive[message.id] = Archived(message, self.name_of(message), outcome, when, result)

    def dead_letter(self, message: Message, reason: str) -> None:
        del self.messages[message.id]
        self.dead[message.id] = Dead(message, self.name_of(message), reason, self.now)

    def view(self) -> dict[str, list[list[Any]]]:
        """As `sql.TABLES` has it."""
        return {
            "channels": [channel_row(c) for _, c in sorted(self.channels.items())],
            "messages": [message_row(m) for _, m in sorted(self.messages.items())],
            "archive": [archived_row(a) for _, a in sorted(self.archive.items())],
            "dead": [dead_row(d) for _, d in sorted(self.dead.items())],
            "paused": [[name] for name, paused in sorted(self.paused.items()) if paused],
        }

    def sizes(self) -> dict[int, int]:
        return {c.id: len(self.live(c.id)) for c in self.channels.values() if c.max_size is not None}


def channel_row(c: Channel) -> list[Any]:
    return [
        c.id, c.queue, c.name, c.max_concurrency, c.max_size, c.full_policy, c.release_interval, c.release_burst,
        c.weight, c.archive, c.paused, c.released_at, c.ordered,
    ]  # fmt: skip


def message_row(m: Message) -> list[Any]:
    return [
        m.id, m.channel, m.number, m.dequeue_at, m.status, m.priority, m.attempts, m.max_attempts, m.key, m.state,
        m.errors, m.token, m.leased_at, m.expires_at, m.settled_token, m.cancelled, m.redriven_from,
        m.held_until,
    ]  # fmt: skip


def archived_row(a: Archived) -> list[Any]:
    return [*end_row(a.message, a.channel), a.outcome, a.at, a.result]


def dead_row(d: Dead) -> list[Any]:
    return [*end_row(d.message, d.channel), d.reason, d.at, d.redriven_to]


def end_row(m: Message, channel: tuple[str, str]) -> list[Any]:
    token = ANYTHING if m.token == SWEPT else m.token
    return [
        m.id, *channel, m.number, m.priority, m.attempts, m.max_attempts, m.state, m.errors, token, m.leased_at,
        m.redriven_from,
    ]  # fmt: skip


def leased(model: Model) -> list[Message]:
    return [message for message in model.messages.values() if message.status == LEASED]
