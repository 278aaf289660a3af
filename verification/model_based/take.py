"""Dequeue, as the documentation describes it: which channel may be served, which must be, and in which order.

Which channel comes next is the line's own business. The model says which answers are right, not which one comes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

from .model import Model
from .settle import fail
from .states import LEASED, READY, Channel, Message

# Leases that one call takes back at a time, and how often it looks while it has found nothing.
MOST_EXPIRED, MOST_TURNS = 16, 5


@dataclass(frozen=True, slots=True)
class Lease:
    id: int
    channel: str
    number: int | None
    attempts: int
    token: str
    expires_at: int


def may(model: Model, channel: Channel) -> int:
    """Return how many messages the channel may be given now, at most."""
    if model.paused.get(channel.queue):
        return 0
    if not channel.limited:
        return len(model.messages)
    released = channel.released_at is not None
    if channel.paused and not released:
        return 0
    room = len(model.messages)
    if channel.ordered:
        first = model.messages.get(model.current.get(channel.id, 0))
        if first is not None and first.status == READY and (first.held_until or 0) > model.now:
            return 0
    if channel.max_concurrency is not None:
        room = max(0, channel.max_concurrency - sum(m.status == LEASED for m in model.live(channel.id)))
    if channel.release_interval is not None and not released:
        given = model.given.get(channel.id, ())
        for place, at in enumerate(given):
            passed = (model.now - at) // channel.release_interval
            room = min(room, channel.release_burst + passed - (len(given) - place))
    return max(room, 0)


def must(model: Model, channel: Channel) -> int:
    """Return how many messages the channel can be given now, if no other session is before it."""
    if channel.limited and model.locked is not None:
        # Another transaction may have its lane.
        return 0
    room = may(model, channel)
    if channel.ordered and model.doubt:
        # Its lane may be parked until a time that the clock had passed before.
        return 0
    if channel.ordered and any((m.held_until or 0) > model.now for m in model.ready(channel.id)):
        # One that was leased before the channel was ordered, and failed since, holds it from the next turn on.
        return 0
    if channel.limited and channel.release_interval is not None and channel.released_at is None:
        if model.doubt:
            return 0
        interval, burst = channel.release_interval, channel.release_burst
        free = model.now + (burst - 1) * interval - max(model.busy.get(channel.id, model.now), model.now)
        room = min(room, free // interval + 1)
    return max(min(room, len(model.ready(channel.id))), 0)


def servable(model: Model, queue: str) -> int:
    return sum(must(model, channel) for channel in model.channels.values() if channel.queue == queue)


def dequeue(model: Model, queue: str, limit: int, lease: int, answer: Sequence[Lease], back: Back) -> None:
    """Raises AssertionError if this may not be the answer."""
    assert len(answer) <= limit
    assert len({lease.token for lease in answer}) <= 1, "one call, one token"
    assert len({lease.id for lease in answer}) == len(answer)
    if not back.happened(model):
        take(model, queue, lease, answer)
        assert len(answer) == limit or back.complete(model), "a dequeue with room brings back what is due or expired"
    else:
        # How many it had before is its own business. With one answer to that, all of it must be right.
        tried: list[AssertionError] = []
        for first in range(min(len(answer), limit - 1) + 1):
            trial = replace(model.copy(), issued=list(model.issued))
            try:
                take(trial, queue, lease, answer[:first])
                back.happen(trial, limit - first, again=not first)
                take(trial, queue, lease, answer[first:])
                break
            except AssertionError as error:
                tried.append(error)
        else:
            raise tried[0]
        for part in fields(trial):
            setattr(model, part.name, getattr(trial, part.name))
    assert all(got.id in model.messages and model.messages[got.id].token == got.token for got in answer)


def take(model: Model, queue: str, lease: int, answer: Sequence[Lease]) -> None:
    waiting = servable(model, queue)
    assert answer or not waiting, f"nothing came, and {waiting} messages could be served"
    for channel in list(model.channels.values()):
        if channel.queue == queue:
            serve(model, channel, lease, [got for got in answer if got.channel == channel.name])


@dataclass(frozen=True, slots=True)
class Back:
    """The messages that a call has brought back, by the tables. ``lost``: messages whose leases it has taken
    back; ``still``: those that were due or expired, and are scheduled now."""

    queue: str
    lost: frozenset[int]
    still: frozenset[int]
    next_at: Callable[[Message], int]

    def happened(self, model: Model) -> bool:
        return bool(self.lost or set(model.due(self.queue)) - self.still)

    def complete(self, model: Model) -> bool:
        """Nothing is left, but what the floors hide after the clock has gone back."""
        return model.doubt or not (model.due(self.queue) or model.expired(self.queue))

    def happen(self, model: Model, room: int, again: bool) -> None:
        """``again``: the call found nothing before, and may have looked a few times."""
        most, expired = min(room, MOST_EXPIRED), model.expired(self.queue)
        assert self.lost <= set(expired), "a lease that lasts is not taken back"
        assert len(self.lost) <= most * (MOST_TURNS if again else 1)
        assert model.doubt or len(self.lost) >= min(most, len(expired)), "an expired lease is taken back"
        for number in sorted(self.lost):
            fail(model, model.messages[number], "poison", self.next_at, swept=True)
        for number in model.due(self.queue):
            if number not in self.still:
                model.messages[number] = replace(model.messages[number], status=READY)
        assert model.doubt or not model.due(self.queue), "all that is due is promoted"


def begun(model: Model, channel: Channel) -> set[int]:
    """Return the messages that may hold an ordered channel since a turn that the model cannot see.

    They were leased before the channel was ordered, and failed since. The first of them holds the channel from the next
    turn on, also when more urgent ones come afterwards.
    """
    if not channel.ordered or model.current.get(channel.id) in model.messages:
        return set()
    return {message.id for message in model.ready(channel.id) if message.held_until is not None}


def serve(model: Model, channel: Channel, lease: int, answer: Sequence[Lease]) -> None:
    room = may(model, channel)
    assert len(answer) <= room, f"channel {channel.name} was given {len(answer)} and may have {room}"
    ready = model.ready(channel.id)
    if answer and answer[0].id in begun(model, channel):
        ready.sort(key=lambda message: message.id != answer[0].id)
    first = ready[: len(answer)]
    assert [got.id for got in answer] == [message.id for message in first], "in the order of the channel"
    for message, got in zip(first, answer, strict=True):
        assert message.dequeue_at <= model.latest, "not before its time"
        taken = leased_to(message, model.now, got.token, lease)
        assert taken.attempts <= taken.max_attempts, "never more attempts than it has"
        assert got == Lease(message.id, channel.name, message.number, taken.attempts, got.token, model.now + lease)
        assert (message.id, got.token) not in model.issued, "a token is given once"
        model.messages[message.id] = taken
        if channel.ordered:
            model.current[channel.id] = message.id
        model.issued.append((message.id, got.token))
    if answer and channel.limited and channel.release_interval is not None and channel.released_at is None:
        count = len(answer)
        model.given[channel.id] = (*model.given.get(channel.id, ()), *[model.now] * count)
        began = max(model.busy.get(channel.id, model.now), model.now)
        model.busy[channel.id] = began + count * channel.release_interval


def leased_to(message: Message, now: int, token: str, lease: int) -> Message:
    return replace(
        message, status=LEASED, attempts=message.attempts + 1, token=token, leased_at=now, expires_at=now + lease
    )


def pop(model: Model, queue: str, limit: int, answer: Sequence[Lease], back: Back) -> None:
    dequeue(model, queue, limit, 60_000_000, answer, back)
    for got in answer:
        model.end(model.messages[got.id], "popped")
