"""give_back: return messages that were leased and not started."""

from __future__ import annotations

from collections.abc import Iterable

from django_pgqueue.delivery import Delivery, Leased
from django_pgqueue.lifecycle.binding import delivery_list, lease_columns
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call

SQL = "SELECT id FROM pgqueue_defer(%s::bigint[], %s::uuid[], p_skip_lost => true)"


def give_back(deliveries: Delivery | Iterable[Leased], *, using: str | None = None) -> set[int]:
    """Return leased messages that were not started to their old places. Returns their ids.

    They are ready at once, for any worker, and the attempt does not count. ``deliveries``: one delivery or several.
    Lost leases are left out; a message with a requested cancellation goes to the archive. ``using``: database alias;
    default: the queue's.
    """
    returned = delivery_list(deliveries)
    return {row[0] for row in call(alias(using), SQL, lease_columns(returned))} if returned else set()
