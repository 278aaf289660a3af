"""The calls of operators, as the documentation describes them: they act on messages in any state and never wait."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from .channels import known
from .model import Model
from .settle import Outcomes, fail
from .states import LEASED, READY, SCHEDULED, SWEPT, Message


def gone(model: Model, number: int) -> str:
    return "settled" if number in model.archive or number in model.dead else "not_found"


def reschedule(model: Model, ids: Sequence[int], at: int | None) -> Outcomes:
    """``at``: a time of the clock; None, or one that has passed, is now."""
    return [(number, reschedule_one(model, number, at)) for number in sorted(set(ids))]


def reschedule_one(model: Model, number: int, at: int | None) -> str:
    message = model.messages.get(number)
    if message is None:
        return gone(model, number)
    if message.status == LEASED:
        return "leased"
    if not model.free(number):
        return "busy"
    delivered = message.delivered and model.channels[message.channel].ordered
    if message.status == READY and (delivered or message.held_until is not None):
        return reschedule_held(model, message, model.now if at is None else max(at, model.now))
    if at is not None and at > model.now:
        model.messages[number] = replace(message, status=SCHEDULED, dequeue_at=at)
        return "rescheduled"
    if message.status == SCHEDULED:
        model.messages[number] = replace(message, status=READY, dequeue_at=model.now)
        return "rescheduled"
    # As it was, and closed to other calls until this transaction ends.
    model.messages[number] = replace(message)
    return "ready"


def reschedule_held(model: Model, message: Message, at: int) -> str:
    """It goes on holding its ordered channel, until then."""
    if at > model.now or (message.held_until or 0) > model.now:
        model.messages[message.id] = replace(message, held_until=at)
        return "rescheduled"
    model.messages[message.id] = replace(message)
    return "ready"


def lease_release(model: Model, ids: Sequence[int]) -> Outcomes:
    return [(number, lease_release_one(model, number)) for number in sorted(set(ids))]


def lease_release_one(model: Model, number: int) -> str:
    message = model.messages.get(number)
    if message is None:
        return gone(model, number)
    if message.status != LEASED:
        return "waiting"
    if not model.free(number):
        return "busy"
    outcome = fail(model, message, "poison", lambda _: model.now, swept=True)
    if outcome != "retried":
        return outcome
    model.messages[number] = replace(model.messages[number], status=READY)
    return "released"


def discard(model: Model, ids: Sequence[int]) -> Outcomes:
    return [(number, discard_one(model, number)) for number in sorted(set(ids))]


def discard_one(model: Model, number: int) -> str:
    message = model.messages.get(number)
    if message is None:
        return gone(model, number)
    if not model.free(number):
        return "busy"
    model.dead_letter(replace(message, token=SWEPT), "discarded")
    return "discarded"


def delete_dead(model: Model, ids: Sequence[int], alone: bool = True) -> Outcomes:
    """``alone``: no other call deletes at this moment."""
    return [(number, delete_dead_one(model, number, alone)) for number in sorted(set(ids))]


def delete_dead_one(model: Model, number: int, alone: bool) -> str:
    letter = model.dead.get(number)
    if letter is None:
        return "not_found"
    if letter.redriven_to is not None:
        return "redriven"
    if not alone or not model.free(number):
        return "busy"
    del model.dead[number]
    return "deleted"


def edit(model: Model, number: int, payload: int) -> str:
    message = model.messages.get(number)
    if message is None:
        return gone(model, number)
    if message.status == LEASED:
        return "leased"
    if not model.free(number):
        return "busy"
    model.messages[number] = replace(message, number=payload)
    return "edited"


def queue_purge(model: Model, queue: str, limit: int, taken: Collection[int]) -> int:
    """``taken``: which ones, where they are not all; the queue decides."""
    known(model, queue)
    waiting = {
        message.id
        for channel in model.channels.values()
        for message in model.live(channel.id)
        if channel.queue == queue and message.status != LEASED and model.free(message.id)
    }
    assert set(taken) <= waiting, f"{sorted(set(taken) - waiting)} do not wait in the queue"
    for number in taken:
        model.end(model.messages[number], "purged")
    return min(limit, len(waiting))
