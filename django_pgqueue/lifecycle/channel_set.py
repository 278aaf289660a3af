"""channel_set: create a channel, or change its limits."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal

from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.jsonb import to_json
from django_pgqueue.lifecycle.arguments import checked_duration, checked_text
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.outcomes import KEEP, Archive, Keep
from django_pgqueue.rates import parse_rate
from django_pgqueue.sql.call import ask

SQL = "SELECT id, refusal FROM pgqueue_channel_set(%s::text, %s::text, %s::jsonb)"
KINDS: dict[str, type] = {
    "max_concurrency": int,
    "max_size": int,
    "full_policy": str,
    "release_interval": timedelta,
    "release_burst": int,
    "weight": int,
    "archive": str,
    "ordered": bool,
    "on_dead": str,
    "forgive": bool,
}
WORDS: dict[type, str] = {int: "a whole number", str: "a text", bool: "True or False"}


def channel_set(
    *,
    channel: str,
    queue: str = "default",
    max_concurrency: int | Keep | None = KEEP,
    max_size: int | Keep | None = KEEP,
    full_policy: Literal["error", "drop", "drop_oldest", "replace"] | Keep = KEEP,
    rate: str | Keep | None = KEEP,
    release_interval: timedelta | Keep | None = KEEP,
    release_burst: int | Keep = KEEP,
    weight: int | Keep = KEEP,
    archive: Archive | Keep | None = KEEP,
    ordered: bool | Keep = KEEP,
    on_dead: Literal["continue", "pause"] | Keep = KEEP,
    context: Mapping[str, Any] | Keep = KEEP,
    forgive: bool = False,
    using: str | None = None,
) -> int:
    """Create a channel, or change the limits and the context that are given of an existing one.

    A limit that is not given stays as it is; None lifts it. Each limit holds from the next dequeue on, for all workers
    together. If a released channel of that name has drained, it is replaced by a new one without the old limits,
    context and pause. While it drains, ChannelReleased is raised.

    ``channel``, ``queue``: the channel's name, and the queue that it belongs to. ``max_concurrency``: messages that may
    be leased at the same time. ``max_size``: live messages that the channel may hold. ``full_policy``: what happens to
    a message that does not fit: ``error`` refuses it, ``drop`` leaves it out, ``drop_oldest`` drops those that have
    waited the longest instead, ``replace`` drops all that wait.

    ``rate``: deliveries in a time, such as ``"10/m"`` or ``"5/s burst 20"``; it sets both ``release_interval``, the
    shortest time from one delivery to the next (a timedelta), and ``release_burst``, the deliveries at once after a
    quiet time (default 1). ``weight``: messages of one turn in the line of its queue, 1 to 1,000.

    ``archive``: what the archive keeps of its messages: ``full``, ``outcome`` (no payload, no result) or ``none``; with
    None the setting of the queue applies, see :func:`django_pgqueue.queue_set`. A dead letter is always kept whole.

    ``ordered``: True delivers the messages strictly one after the other. A message that fails holds the channel until
    it is completed, cancelled or a dead letter; ``max_concurrency`` becomes 1, and stays 1 after ``ordered=False``.
    ``on_dead``: what an ordered channel does at a dead letter: ``continue`` with the next message, or ``pause`` until
    the dead letter is redriven or the channel is resumed.

    ``forgive``: True ends the debt of the rate, which messages have left that cost more than its burst.

    ``context``: a JSON object for handlers and middleware, such as the tenant. It replaces the context of the channel,
    and holds for messages that are dequeued afterwards. ``using``: database alias; default: the queue's.

    Returns the id of the channel. Raises ChannelReleased, InvalidMessage.
    """
    if not isinstance(rate, Keep):
        if not (isinstance(release_interval, Keep) and isinstance(release_burst, Keep)):
            raise InvalidMessage("rate stands for release_interval and release_burst", hint="Give it, or the two.")
        release_interval, release_burst = (None, 1) if rate is None else parse_rate(rate)
    given = {
        "max_concurrency": max_concurrency,
        "max_size": max_size,
        "full_policy": full_policy,
        "release_interval": release_interval,
        "release_burst": release_burst,
        "weight": weight,
        "archive": archive,
        "ordered": ordered,
        "on_dead": on_dead,
        "forgive": forgive or KEEP,
    }
    limits = {limit: limit_as_json(limit, value) for limit, value in given.items() if value is not KEEP}
    if not isinstance(context, Keep):
        limits["context"] = context_as_json(context)
    names = checked_text(queue, "queue"), checked_text(channel, "channel")
    id: int = ask(alias(using), SQL, (*names, to_json(limits, "limits")))[0][0]  # noqa: A001  (as everywhere)
    return id


def context_as_json(context: Any) -> dict[str, Any]:
    """Return a context as a dict. Raises InvalidMessage for anything else, and for values that are not JSON."""
    if not isinstance(context, Mapping):
        raise InvalidMessage(f"context is not a mapping but {type(context).__name__}", hint="Give a dict.")
    to_json(dict(context), "context")
    return dict(context)


def limit_as_json(limit: str, value: Any) -> Any:
    """Return the value of a limit as JSON. Raises InvalidMessage for a value of another type."""
    kind = KINDS[limit]
    if value is not None and (not isinstance(value, kind) or (isinstance(value, bool) and kind is int)):
        hint = "Use datetime.timedelta(seconds=…), or rate." if kind is timedelta else f"Give {WORDS[kind]}."
        raise InvalidMessage(f"{limit} takes {kind.__name__} or None, not {value!r}", hint=hint)
    if isinstance(value, timedelta):
        checked_duration(value, limit)
        return f"{value.total_seconds():f} seconds"
    return value
