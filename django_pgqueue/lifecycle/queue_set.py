"""queue_set: change the settings of a whole queue."""

from __future__ import annotations

from django_pgqueue.jsonb import to_json
from django_pgqueue.lifecycle.arguments import boolean, checked_text
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.outcomes import KEEP, Archive, Keep
from django_pgqueue.sql.call import ask

SQL = "SELECT outcome, refusal FROM pgqueue_queue_set(%s::text, %s::jsonb)"


def queue_set(
    queue: str = "default", *, archive: Archive | Keep = KEEP, events: bool | Keep = KEEP, using: str | None = None
) -> None:
    """Change the settings of a whole queue; a setting that is not given stays as it is.

    ``queue``: its name. ``archive``: what the archive keeps of its messages, unless their channel or the call says
    otherwise: ``full``, ``outcome`` (no payload, no result) or ``none``. It applies to messages that are settled from
    now on. A dead letter is always kept whole. ``events``: whether the queue sends :mod:`its events
    <django_pgqueue.events>`. ``using``: database alias; default: the queue's.

    Raises ChannelNotFound for a queue without channels; InvalidMessage for a value that is not allowed.
    """
    given = {"archive": archive, "events": events}
    if events is not KEEP and events is not None:
        boolean(events, "events")
    settings = {name: value for name, value in given.items() if value is not KEEP}
    ask(alias(using), SQL, (checked_text(queue, "queue"), to_json(settings, "settings")))
