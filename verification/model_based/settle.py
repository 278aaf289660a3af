"""The calls of a lease's holder, the sweep, and the end of waiting messages, as the documentation describes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import replace
from typing import Any

from .model import Model, leased
from .states import LEASED, READY, SCHEDULED, SECOND, SWEPT, Message, Refused

Pairs = Sequence[tuple[int, str]]
Outcomes = list[tuple[int, str]]
DAY = 86_400 * SECOND


def held(model: Model, pairs: Pairs, skip_lost: bool) -> list[Message]:
    """Those whose lease is the caller's; without ``skip_lost`` it must be all."""
    found = [
        model.messages[number]
        for number, token in sorted(pairs)
        if number in model.messages and model.messages[number].token == token
    ]
    if len(found) < len(pairs) and not skip_lost:
        raise Refused("PGQ02")
    return found


def settled_before(model: Model, pairs: Pairs, done: Iterable[Message]) -> Outcomes:
    """Return the outcomes of messages that these very leases have settled before."""
    skipped = {message.id for message in done}
    answers: Outcomes = []
    for number, token in pairs:
        if number in skipped:
            continue
        archived, dead, live = model.archive.get(number), model.dead.get(number), model.messages.get(number)
        if archived and archived.message.token == token and archived.outcome in ("completed", "cancelled"):
            answers.append((number, archived.outcome))
        elif dead and dead.message.token == token:
            answers.append((number, "dead_lettered"))
        elif live and live.settled_token == token:
            answers.append((number, "retried"))
    return answers


def heartbeat(model: Model, pairs: Pairs, lease: int, skip_lost: bool) -> list[tuple[int, bool]]:
    found = held(model, pairs, skip_lost)
    for message in found:
        model.messages[message.id] = replace(message, expires_at=model.now + lease)
    return [(message.id, message.cancelled) for message in found]


def complete(model: Model, pairs: Pairs, result: Any, skip_lost: bool, cancelled: bool) -> list[int]:
    found = held(model, pairs, skip_lost)
    for message in found:
        bare = model.channels[message.channel].archive == "outcome"
        kept = {"reason": message.reason} if cancelled and message.reason and (result is None or bare) else result
        model.end(message, "cancelled" if cancelled else "completed", kept)
    before = settled_before(model, pairs, found)
    return sorted([m.id for m in found] + [n for n, outcome in before if outcome in ("completed", "cancelled")])


def dead_letter(model: Model, pairs: Pairs, reason: str, skip_lost: bool) -> list[int]:
    found = held(model, pairs, skip_lost)
    for message in found:
        model.dead_letter(message, reason)
    return sorted([m.id for m in found] + [number for number, _ in settled_before(model, pairs, found)])


def defer(model: Model, pairs: Pairs, due: int | None, state: Any, skip_lost: bool) -> Outcomes:
    """``due``: microseconds from now; None leaves a message its old place."""
    found = held(model, pairs, skip_lost)
    answers = []
    for message in found:
        message = replace(message, state=message.state if state is None else state)
        if message.cancelled:
            withdraw(model, message)
        else:
            at = message.dequeue_at if due is None else max(model.now, model.now + due)
            later = due is not None and due > 0
            back = given_back(model, message, at, later)
            if due is None:
                back = replace(back, dequeue_at=message.dequeue_at, held_until=None)
            model.messages[message.id] = replace(back, attempts=message.attempts - 1)
        answers.append((message.id, "cancelled" if message.cancelled else "deferred"))
    return sorted(answers + settled_before(model, pairs, found))


def retry(model: Model, pairs: Pairs, reason: str, skip_lost: bool, next_at: Callable[[Message], int]) -> Outcomes:
    """``next_at`` returns the time of the next attempt."""
    found = held(model, pairs, skip_lost)
    answers = [(message.id, fail(model, message, reason, next_at)) for message in found]
    return sorted(answers + settled_before(model, pairs, found))


def fail(model: Model, message: Message, reason: str, next_at: Callable[[Message], int], swept: bool = False) -> str:
    message = replace(message, errors=message.errors + 1)
    over = replace(message, token=SWEPT) if swept else message
    if message.cancelled:
        withdraw(model, over)
        return "cancelled"
    if message.attempts >= message.max_attempts:
        model.dead_letter(over, reason)
        return "dead_lettered"
    back = given_back(model, message, next_at(message), True)
    model.messages[message.id] = replace(back, settled_token=message.settled_token) if swept else back
    return "retried"


def given_back(model: Model, message: Message, at: int, later: bool) -> Message:
    """In an ordered channel it keeps its place, and is held there."""
    ordered = model.channels[message.channel].ordered
    return replace(
        message, status=SCHEDULED if later and not ordered else READY,
        dequeue_at=message.dequeue_at if ordered else at, held_until=at if ordered else None,
        token=None, leased_at=None, expires_at=None, settled_token=message.token, delivered=True,
    )  # fmt: skip


def withdraw(model: Model, message: Message) -> None:
    model.end(message, "cancelled", {"reason": message.reason} if message.reason else None)


def sweep(
    model: Model, next_at: Callable[[Message], int], ticks: bool = True, removed: frozenset[int] = frozenset()
) -> tuple[int, int, int, int]:
    """Return how many were retried, poisoned, cancelled, promoted.

    ``ticks``: no other call ticks at this moment. ``removed``: channels that went.
    """
    promoted = model.promote() if ticks else 0
    leases = [m for m in leased(model) if model.free(m.id)]
    expired = [m for m in leases if m.expires_at is not None and m.expires_at <= model.now]
    ends = [fail(model, message, "poison", next_at, swept=True) for message in expired]
    remove(model, removed)
    return ends.count("retried"), ends.count("dead_lettered"), ends.count("cancelled"), promoted


def cancel(model: Model, ids: Sequence[int], reason: str) -> Outcomes:
    answers = []
    for number in ids:
        message = model.messages.get(number)
        if message is None:
            known = number in model.archive or number in model.dead
            answers.append((number, "settled" if known else "not_found"))
            continue
        message = replace(message, cancelled=True, reason=reason or message.reason)
        if message.status == LEASED:
            model.messages[number] = message
            answers.append((number, "requested"))
        else:
            withdraw(model, message)
            answers.append((number, "cancelled"))
    if len(ids) == 1 and answers[0][1] == "not_found":
        raise Refused("PGQ01")
    return answers


def channel_purge(model: Model, name: str, queue: str) -> int:
    waiting = [m for m in model.live(model.channel(name, queue).id) if m.status != LEASED and model.free(m.id)]
    for message in waiting:
        model.end(message, "purged")
    return len(waiting)


def drained(model: Model) -> set[int]:
    """Channels that were released, and are empty."""
    released = [c for c in model.channels.values() if c.released_at is not None]
    return {channel.id for channel in released if not model.live(channel.id)}


def remove(model: Model, removed: Set[int]) -> int:
    """How many channels go. One that an open transaction may still use stays for the next time."""
    assert removed <= drained(model), f"channels {removed - drained(model)} were removed too early"
    for number in removed:
        del model.channels[number]
    return len(removed)


def prune(model: Model, archive: int | None, dead: int | None, removed: Set[int]) -> tuple[int, int]:
    """Return how many dead letters and channels go. From the archive go the days that ended longer ago.

    ``removed``: channels that went.
    """
    remove(model, removed)
    if archive is not None:
        noon = DAY // 2
        kept = {
            number: row
            for number, row in model.archive.items()
            if ((row.at + noon) // DAY + 1) * DAY - noon >= model.now - archive
        }
        model.archive = kept
    gone = [n for n, letter in model.dead.items() if dead is not None and letter.at < model.now - dead]
    for number in gone:
        del model.dead[number]
    if model.now >= model.latest:
        model.doubt = False
    return len(gone), len(removed)
