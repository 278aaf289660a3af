"""queue_set: change the settings of a whole queue."""

from __future__ import annotations

from datetime import timedelta
from math import isfinite
from typing import Literal

from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.jsonb import to_json
from django_pgqueue.lifecycle.arguments import boolean, checked_duration, checked_text
from django_pgqueue.lifecycle.channel_set import limit_as_json
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.outcomes import KEEP, Archive, Keep
from django_pgqueue.rates import parse_rate
from django_pgqueue.sql.call import ask

SQL = "SELECT outcome, refusal FROM pgqueue_queue_set(%s::text, %s::jsonb)"


def queue_set(
    queue: str = "default",
    *,
    archive: Archive | Keep = KEEP,
    events: bool | Keep = KEEP,
    retention: timedelta | Keep | None = KEEP,
    dead_letter_retention: timedelta | Keep | None = KEEP,
    max_concurrency: int | Keep | None = KEEP,
    rate: str | Keep | None = KEEP,
    fairness: Literal["turns", "share"] | Keep = KEEP,
    max_share: float | Keep | None = KEEP,
    forgive: bool = False,
    using: str | None = None,
) -> None:
    """Change the settings of a whole queue; a setting that is not given stays as it is.

    ``queue``: its name. ``archive``: what the archive keeps of its messages, unless their channel or the call says
    otherwise: ``full``, ``outcome`` or ``none``. It applies to messages that are settled from now on. A dead letter is
    always kept whole. ``events``: whether the queue sends :mod:`its events <django_pgqueue.events>`.

    ``retention``, ``dead_letter_retention``: how long its archived messages and its dead letters are kept (a
    timedelta); None: as the settings ARCHIVE_RETENTION and DEAD_LETTER_RETENTION say. The archive counts whole days.

    ``max_concurrency``: messages of all its channels that may be leased at the same time; None: no limit. ``rate``:
    deliveries of all its channels in a time, such as ``"10/m"`` or ``"100/s burst 50"``; None: no limit. Both hold from
    the next dequeue on, for all workers together.

    ``fairness``: ``turns`` serves the channels round robin; with ``share``, a channel has no turn while it holds its
    share of the leases of the queue, by weight, and another one waits. ``max_share``: the part of the slots of the live
    workers that one channel may hold, above 0 and up to 1, so that the rest is free for others; None: no limit.
    ``forgive``: True ends the debt of the rate, which messages have left that cost more than its burst. ``using``:
    database alias; default: the queue's.

    Raises ChannelNotFound for a queue without channels; InvalidMessage for a value that is not allowed.
    """
    if events is not KEEP and events is not None:
        boolean(events, "events")
    given = {
        "archive": archive,
        "events": events,
        "retention": interval_text(retention, "retention"),
        "dead_letter_retention": interval_text(dead_letter_retention, "dead_letter_retention"),
        "max_concurrency": max_concurrency,
        "fairness": fairness,
        "max_share": checked_part(max_share),
        "forgive": boolean(forgive, "forgive") or KEEP,
    } | rate_as_json(rate)
    settings = {name: value for name, value in given.items() if value is not KEEP}
    if "max_concurrency" in settings:
        settings["max_concurrency"] = limit_as_json("max_concurrency", max_concurrency)
    ask(alias(using), SQL, (checked_text(queue, "queue"), to_json(settings, "settings")))


def interval_text(value: timedelta | Keep | None, name: str) -> str | Keep | None:
    """Return a retention as PostgreSQL reads it. Raises InvalidMessage for a value of another type."""
    if value is KEEP or value is None:
        return value
    found = checked_duration(value, name)
    return f"{found.total_seconds():f} seconds" if found is not None else None


def rate_as_json(rate: str | Keep | None) -> dict[str, object]:
    """Return the two settings that a rate stands for; none of them if it is not given. Raises InvalidMessage."""
    if isinstance(rate, Keep):
        return {}
    if rate is None:
        return {"release_interval": None, "release_burst": None}
    interval, burst = parse_rate(rate)
    return {"release_interval": interval_text(interval, "rate"), "release_burst": burst}


def checked_part(value: float | Keep | None) -> float | Keep | None:
    """Return a part of a whole. Raises InvalidMessage for a value that is no number, as NaN."""
    if isinstance(value, Keep) or value is None:
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
        raise InvalidMessage(f"max_share takes a number or None, not {value!r}", hint="Give a part such as 0.75.")
    return value
