"""pop: dequeue and complete in one call, at most once."""

from __future__ import annotations

from django_pgqueue.delivery import Delivery
from django_pgqueue.lifecycle.arguments import text, whole
from django_pgqueue.lifecycle.binding import DELIVERY_COLUMNS, to_deliveries
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.outcomes import Archive
from django_pgqueue.sql.call import call

SQL = f"SELECT {DELIVERY_COLUMNS} FROM pgqueue_pop(%s::text, %s::integer, p_archive => %s::text)"  # noqa: S608


def pop(
    queue: str = "default", limit: int = 1, *, archive: Archive | None = None, using: str | None = None
) -> list[Delivery]:
    """Take up to ``limit`` messages, archived at once: whoever crashes afterwards has lost them. One that
    Python cannot read is left out, and logged. ``archive``: as of :func:`django_pgqueue.complete`. Raises
    InvalidMessage."""
    return to_deliveries(
        queue, call(alias(using), SQL, (text(queue, "queue"), whole(limit, "limit", least=1, most=10_000), archive))
    )[0]
