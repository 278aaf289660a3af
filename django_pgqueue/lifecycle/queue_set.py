"""queue_set: change the settings of a whole queue."""

from __future__ import annotations

from datetime import timedelta

from django_pgqueue.jsonb import to_json
from django_pgqueue.lifecycle.arguments import boolean, checked_duration, checked_text
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.outcomes import KEEP, Archive, Keep
from django_pgqueue.sql.call import ask

SQL = "SELECT outcome, refusal FROM pgqueue_queue_set(%s::text, %s::jsonb)"


def queue_set(
    queue: str = "default",
    *,
    archive: Archive | Keep = KEEP,
    events: bool | Keep = KEEP,
    retention: timedelta | Keep | None = KEEP,
    dead_letter_retention: timedelta | Keep | None = KEEP,
    using: str | None = None,
) -> None:
    """Change the settings of a whole queue; a setting that is not given stays as it is.

    ``queue``: its name. ``archive``: what the archive keeps of its messages, unless their channel or the call says
    otherwise: ``full``, ``outcome`` or ``none``. It applies to messages that are settled from now on. A dead letter is
    always kept whole. ``events``: whether the queue sends :mod:`its events <django_pgqueue.events>`.

    ``retention``, ``dead_letter_retention``: how long its archived messages and its dead letters are kept (a
    timedelta); None: as the settings ARCHIVE_RETENTION and DEAD_LETTER_RETENTION say. The archive counts whole days.
    ``using``: database alias; default: the queue's.

    Raises ChannelNotFound for a queue without channels; InvalidMessage for a value that is not allowed.
    """
    if events is not KEEP and events is not None:
        boolean(events, "events")
    given = {
        "archive": archive,
        "events": events,
        "retention": as_text(retention, "retention"),
        "dead_letter_retention": as_text(dead_letter_retention, "dead_letter_retention"),
    }
    settings = {name: value for name, value in given.items() if value is not KEEP}
    ask(alias(using), SQL, (checked_text(queue, "queue"), to_json(settings, "settings")))


def as_text(value: timedelta | Keep | None, name: str) -> str | Keep | None:
    """Return a retention as PostgreSQL reads it. Raises InvalidMessage for a value of another type."""
    if value is KEEP or value is None:
        return value
    found = checked_duration(value, name)
    return f"{found.total_seconds():f} seconds" if found is not None else None
