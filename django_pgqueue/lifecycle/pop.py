"""pop: dequeue and complete in one call, at most once."""

from __future__ import annotations

from django_pgqueue.delivery import Delivery
from django_pgqueue.lifecycle.arguments import checked_text, checked_whole
from django_pgqueue.lifecycle.binding import DELIVERY_COLUMNS, to_deliveries
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.outcomes import Archive
from django_pgqueue.sql.call import call

SQL = f"SELECT {DELIVERY_COLUMNS} FROM pgqueue_pop(%s::text, %s::integer, p_archive => %s::text)"  # noqa: S608


def pop(
    queue: str = "default", limit: int = 1, *, archive: Archive | None = None, using: str | None = None
) -> list[Delivery]:
    """Take messages and archive them at once: they are delivered at most once.

    If the caller crashes afterwards, the messages are lost. ``limit``: the most messages to take, 1 to 10,000.
    ``archive``: what the archive keeps of them, as in :func:`django_pgqueue.complete`. ``using``: database alias;
    default: the queue's.

    Returns the deliveries. A message that Python cannot read is left out, and logged. Raises InvalidMessage.
    """
    return to_deliveries(
        queue,
        call(
            alias(using),
            SQL,
            (checked_text(queue, "queue"), checked_whole(limit, "limit", least=1, most=10_000), archive),
        ),
    )[0]
