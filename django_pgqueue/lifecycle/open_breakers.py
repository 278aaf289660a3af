"""Ask which breakers are open, of messages that have failed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from django_pgqueue.delivery import Delivery
from django_pgqueue.sql.call import call

SQL = "SELECT * FROM pgqueue_open_breakers(%s::text[], %s::text[], %s::text[])"


class OpenBreaker(NamedTuple):
    """Name a breaker that is open. ``queue``, ``channel``: None for one that applies to all channels."""

    handler: str
    queue: str | None
    channel: str | None


def open_breakers(failed: Iterable[Delivery], *, using: str) -> list[OpenBreaker]:
    """Return the breakers of these messages that are open, also those for which nobody has written it down yet."""
    asked = {(delivery.handler, delivery.queue, delivery.channel) for delivery in failed}
    return [OpenBreaker(*row) for row in call(using, SQL, [list(column) for column in zip(*asked, strict=True)])]
