"""Enqueue and redrive, as the documentation describes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from .model import Model
from .states import LEASED, READY, SCHEDULED, Channel, Message, Refused


@dataclass(frozen=True, slots=True)
class Draft:
    """A message to enqueue. ``due``: microseconds from now, None for at once."""

    channel: str
    queue: str
    number: int
    priority: int = 0
    due: int | None = None
    max_attempts: int = 5
    backoff: int | None = None
    factor: float | None = None
    longest: int | None = None
    key: str | None = None


Answers = list[tuple[int | None, str, list[int] | None]]


def enqueue(model: Model, draft: Draft, answer: Any) -> Answers:
    """The new id is the one thing that the model takes from the answer."""
    if not valid(draft):
        raise Refused("PGQ07")
    channel = model.channel(draft.channel, draft.queue)
    if channel.released_at is not None:
        raise Refused("PGQ05")
    for live in model.live(channel.id):
        if draft.key is not None and live.key == draft.key:
            return [(live.id, "duplicate", None)]
    full = channel.max_size is not None and len(model.live(channel.id)) >= channel.max_size
    if full and channel.full_policy == "drop":
        return [(None, "dropped", None)]
    left = make_room(model, channel)
    [(number, _, _)] = answer if isinstance(answer, list) else [(-1, "", None)]
    accept(model, channel, draft, number)
    return [(number, "created", left)]


def make_room(model: Model, channel: Channel) -> list[int] | None:
    """Return the messages that leave the channel for one message more; None: there is room. A leased message stays."""
    missing = 0 if channel.max_size is None else len(model.live(channel.id)) + 1 - channel.max_size
    if missing <= 0:
        return None
    waiting = [message for message in model.live(channel.id) if message.status != LEASED and model.free(message.id)]
    if channel.full_policy not in ("drop_oldest", "replace") or len(waiting) < missing:
        raise Refused("PGQ04")
    # Ready ones first, each by the time of its delivery.
    waiting.sort(key=lambda message: (message.status == SCHEDULED, message.dequeue_at, message.id))
    leaving = waiting if channel.full_policy == "replace" else waiting[:missing]
    for message in leaving:
        model.end(message, "dropped")
    return [message.id for message in leaving]


def valid(draft: Draft) -> bool:
    return draft.max_attempts >= 1


def accept(model: Model, channel: Channel, draft: Draft, number: int) -> None:
    at = model.now + (draft.due or 0)
    model.messages[number] = Message(
        number, channel.id, draft.number, at, SCHEDULED if at > model.now else READY, draft.priority,
        max_attempts=draft.max_attempts, backoff=draft.backoff, factor=draft.factor, longest=draft.longest,
        key=draft.key,
    )  # fmt: skip


REFUSED = {"PGQ03": "not_found", "PGQ04": "full", "PGQ05": "released", "PGQ07": "invalid"}


def enqueue_many(model: Model, drafts: Sequence[Draft], answer: Any, partial: bool = False) -> Answers:
    """All or none, or each for itself (``partial``). Where channels drop, keys are deduped or each is for itself, the
    order is that of channels and keys."""
    trial = model.copy()
    channels = [found(trial, draft) for draft in drafts]
    one_by_one = (
        partial
        or any(draft.key for draft in drafts)
        or any(c and c.max_size and c.full_policy != "error" for c in channels)
    )
    places: Sequence[int] = range(len(drafts))
    if one_by_one:
        places = sorted(places, key=lambda p: (number_of(channels[p]), drafts[p].key is None, drafts[p].key or "", p))
    given = answer if isinstance(answer, list) else [(-1 - place, "", None) for place in range(len(drafts))]
    results: list[Any] = [None] * len(drafts)
    codes: set[str] = set()
    for place in places:
        try:
            [results[place]] = enqueue(trial, drafts[place], [given[place]])
        except Refused as refused:
            codes |= refused.codes
            [code] = refused.codes
            results[place] = (None, REFUSED[code], None)
    if codes and not partial:
        # Room is asked for all that are given, those that are invalid included.
        raise Refused(*codes, *(["PGQ04"] if "PGQ07" in codes else []))
    model.messages, model.archive = trial.messages, trial.archive
    return results


def found(model: Model, draft: Draft) -> Channel | None:
    try:
        return model.channel(draft.channel, draft.queue)
    except Refused:
        return None


def number_of(channel: Channel | None) -> int:
    return -1 if channel is None else channel.id


def insert(model: Model, draft: Draft, answer: Any) -> list[int]:
    """A plain INSERT: it is never left out, and a duplicate is an error. Its rules are those of enqueue."""
    channel = found(model, draft)
    if channel is None:
        # It looks the channel up, and has nothing to insert.
        return []
    if not valid(draft):
        raise Refused("PGQ07", "23505")
    if any(draft.key is not None and live.key == draft.key for live in model.live(channel.id)):
        raise Refused("23505")
    if channel.released_at is not None:
        raise Refused("PGQ05")
    make_room(model, channel)
    [number] = answer if isinstance(answer, list) else [-1]
    accept(model, channel, draft, number)
    return [number]


def redrive(model: Model, ids: Sequence[int], answer: Any, to: str | None = None) -> list[tuple[int, int]]:
    """A new life each, once; by channel, the oldest first. All or none. ``to``: another channel."""
    letters = [model.dead[n] for n in sorted(set(ids)) if n in model.dead and model.free(n)]
    letters = [dead for dead in letters if dead.redriven_to is None]
    letters.sort(key=lambda dead: (dead.channel, dead.message.id))
    channels = [model.channel(to or dead.channel[1], dead.channel[0]) for dead in letters]
    for channel in channels:
        if channel.released_at is not None:
            raise Refused("PGQ05", "PGQ04")
        more = sum(other.id == channel.id for other in channels)
        if channel.max_size is not None and len(model.live(channel.id)) + more > channel.max_size:
            raise Refused("PGQ04", "PGQ05")
    found = answer if isinstance(answer, list) else []
    assert len(found) == len(letters), f"{len(found)} of {len(letters)} have a new life"
    results = []
    for dead, channel, (_, new) in zip(letters, channels, found, strict=True):
        old = dead.message
        at = model.now
        if channel.ordered and channel.name == dead.channel[1]:
            # At its place, before what was enqueued by the same call.
            at = min(at, old.dequeue_at - (old.redriven_from is None))
        model.messages[new] = Message(
            new, channel.id, old.number, at, READY, old.priority, max_attempts=old.max_attempts,
            backoff=old.backoff, factor=old.factor, longest=old.longest, state=old.state, redriven_from=old.id,
        )  # fmt: skip
        model.dead[old.id] = replace(dead, redriven_to=new)
        results.append((old.id, new))
    return results
