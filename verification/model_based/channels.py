"""Channels and queues, as the documentation describes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .model import Model
from .states import READY, SCHEDULED, Channel, Refused


def channel_set(model: Model, name: str, queue: str, limits: dict[str, Any], answer: Any) -> int:
    """Creates it or changes what is named; a released one that has drained makes room for a new one."""
    limits = with_order(model, name, queue, limits)
    try:
        old = model.channel(name, queue)
    except Refused:
        number = answer if isinstance(answer, int) else -1
        model.channels[number] = Channel(number, queue, name, **limits)
        return number
    if old.released_at is not None:
        if model.live(old.id):
            raise Refused("PGQ05")
        model.channels[old.id] = replace(old, name=f"{old.name} (released {old.id})")
        return channel_set(model, name, queue, limits, answer)
    new = replace(old, **limits)
    model.channels[old.id] = new
    if old.ordered and not new.ordered:
        let_go(model, old.id)
    if (new.release_interval, new.release_burst) != (old.release_interval, old.release_burst):
        model.given.pop(old.id, None)
    return old.id


def with_order(model: Model, name: str, queue: str, limits: dict[str, Any]) -> dict[str, Any]:
    """The limits, with the max_concurrency of an ordered channel. Another one is refused."""
    there = [c for c in model.channels.values() if (c.name, c.queue, c.released_at) == (name, queue, None)]
    ordered = limits.get("ordered", any(channel.ordered for channel in there))
    if ordered and limits.get("max_concurrency", 1) != 1:
        raise Refused("PGQ07")
    return {**limits, "max_concurrency": 1} if limits.get("ordered") else limits


def let_go(model: Model, number: int) -> None:
    """Messages that are held in a channel which is not ordered any more are scheduled."""
    for held in model.live(number):
        if held.status == READY and held.held_until is not None:
            model.messages[held.id] = replace(held, status=SCHEDULED, dequeue_at=held.held_until, held_until=None)


def channel_pause(model: Model, name: str, queue: str) -> None:
    change(model, name, queue, paused=True)


def channel_resume(model: Model, name: str, queue: str) -> None:
    change(model, name, queue, paused=False)


def channel_release(model: Model, name: str, queue: str) -> None:
    at = model.channel(name, queue).released_at
    change(model, name, queue, released_at=model.now if at is None else at)
    model.given.pop(model.channel(name, queue).id, None)


def change(model: Model, name: str, queue: str, **changes: Any) -> None:
    channel = model.channel(name, queue)
    model.channels[channel.id] = replace(channel, **changes)


def queue_pause(model: Model, queue: str) -> None:
    known(model, queue)
    model.paused[queue] = True


def queue_resume(model: Model, queue: str) -> None:
    known(model, queue)
    if queue in model.paused:
        model.paused[queue] = False


def known(model: Model, queue: str) -> None:
    """A queue that was paused once has a row of its own, and is known even without channels."""
    if queue not in model.paused and not any(channel.queue == queue for channel in model.channels.values()):
        raise Refused("PGQ03")
