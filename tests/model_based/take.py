"""What the documentation says of dequeue: who may be served, who must be, and in which order.

Which channel comes next is the line's own business. The model says which answers are right, not which one comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .model import Model
from .states import LEASED, Channel, Message


@dataclass(frozen=True, slots=True)
class Lease:
    id: int
    channel: str
    number: int
    attempts: int
    token: str
    expires_at: int


def may(model: Model, channel: Channel) -> int:
    """How many messages the channel may be given now, at most."""
    if model.paused.get(channel.queue):
        return 0
    if not channel.limited:
        return len(model.messages)
    if channel.paused:
        return 0
    room = len(model.messages)
    if channel.max_concurrency is not None:
        room = max(0, channel.max_concurrency - sum(m.status == LEASED for m in model.live(channel.id)))
    if channel.release_interval is not None:
        given = model.given.get(channel.id, ())
        for place, at in enumerate(given):
            passed = (model.now - at) // channel.release_interval
            room = min(room, channel.release_burst + passed - (len(given) - place))
    return max(room, 0)


def must(model: Model, channel: Channel) -> int:
    """How many messages the channel can be given now, if nobody else is before it."""
    if channel.limited and model.locked is not None:
        # Another transaction may have its lane.
        return 0
    room = may(model, channel)
    if channel.limited and channel.release_interval is not None:
        if model.doubt:
            return 0
        interval, burst = channel.release_interval, channel.release_burst
        free = model.now + (burst - 1) * interval - max(model.busy.get(channel.id, model.now), model.now)
        room = min(room, free // interval + 1)
    return max(min(room, len(model.ready(channel.id))), 0)


def servable(model: Model, queue: str) -> int:
    return sum(must(model, channel) for channel in model.channels.values() if channel.queue == queue)


def dequeue(model: Model, queue: str, limit: int, lease: int, answer: Sequence[Lease], promoted: bool) -> None:
    """Raises AssertionError if this may not be the answer. ``promoted``: whether the call made ready what was due."""
    waiting = servable(model, queue)
    if promoted:
        assert not waiting, f"{waiting} messages could be served before something was promoted"
        model.promote()
        waiting = servable(model, queue)
    assert len(answer) <= limit
    assert answer or not waiting, f"nothing came, and {waiting} messages could be served"
    assert answer or not model.due() or model.locked is not None, "a dequeue that finds nothing promotes what is due"
    assert len({lease.token for lease in answer}) <= 1, "one call, one token"
    assert len({lease.id for lease in answer}) == len(answer)
    for channel in list(model.channels.values()):
        if channel.queue == queue:
            serve(model, channel, lease, [got for got in answer if got.channel == channel.name])
    assert all(got.id in model.messages and model.messages[got.id].token == got.token for got in answer)


def serve(model: Model, channel: Channel, lease: int, answer: Sequence[Lease]) -> None:
    room = may(model, channel)
    assert len(answer) <= room, f"channel {channel.name} was given {len(answer)} and may have {room}"
    first = model.ready(channel.id)[: len(answer)]
    assert [got.id for got in answer] == [message.id for message in first], "in the order of the channel"
    for message, got in zip(first, answer, strict=True):
        assert message.dequeue_at <= model.latest, "not before its time"
        taken = leased_to(message, model.now, got.token, lease)
        assert taken.attempts <= taken.max_attempts, "never more attempts than it has"
        assert got == Lease(message.id, channel.name, message.number, taken.attempts, got.token, model.now + lease)
        assert (message.id, got.token) not in model.issued, "a token is given once"
        model.messages[message.id] = taken
        model.issued.append((message.id, got.token))
    if answer and channel.limited and channel.release_interval is not None:
        count = len(answer)
        model.given[channel.id] = (*model.given.get(channel.id, ()), *[model.now] * count)
        began = max(model.busy.get(channel.id, model.now), model.now)
        model.busy[channel.id] = began + count * channel.release_interval


def leased_to(message: Message, now: int, token: str, lease: int) -> Message:
    return replace(
        message, status=LEASED, attempts=message.attempts + 1, token=token, leased_at=now, expires_at=now + lease
    )


def pop(model: Model, queue: str, limit: int, answer: Sequence[Lease], promoted: bool) -> None:
    dequeue(model, queue, limit, 60_000_000, answer, promoted)
    for got in answer:
        model.end(model.messages[got.id], "popped")
