"""heartbeat: change when leases expire."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from django_pgqueue.conf import settings
from django_pgqueue.delivery import Delivery, Leased
from django_pgqueue.lifecycle.arguments import checked_duration
from django_pgqueue.lifecycle.binding import delivery_list, lease_columns
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call

SQL = "SELECT id, cancelled FROM pgqueue_heartbeat(%s::bigint[], %s::uuid[], %s::interval, %s::boolean)"


def heartbeat(
    deliveries: Delivery | Iterable[Leased],
    *,
    lease: timedelta | None = None,
    skip_lost: bool = False,
    using: str | None = None,
) -> dict[int, bool]:
    """Set the leases to expire ``lease`` from now, later or sooner than before.

    ``deliveries``: one delivery or several. ``lease``: a timedelta; default: the setting LEASE. ``timedelta(0)`` gives
    the messages back: they are ready at once, in their old place. The attempt counts; where the attempts are used up,
    the message becomes a dead letter with reason ``deferred``. ``skip_lost``: leave lost leases out instead of raising;
    then the call does not wait, either: a message that another transaction has locked is returned as held, and its
    lease is not extended this time. ``using``: database alias; default: the queue's.

    Returns the ids that are still held (with ``timedelta(0)``: that were given back), each with whether a cancellation
    was requested. Raises LeaseLost if a lease is lost, and InvalidMessage for a negative ``lease``.
    """
    ids, tokens = lease_columns(delivery_list(deliveries))
    if not ids:
        return {}
    lease = settings.LEASE if lease is None else checked_duration(lease, "lease")
    return dict(call(alias(using), SQL, (ids, tokens, lease, skip_lost)))
