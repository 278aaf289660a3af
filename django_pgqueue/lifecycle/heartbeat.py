"""heartbeat: extend leases."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from django_pgqueue.conf import settings
from django_pgqueue.delivery import Delivery, Leased
from django_pgqueue.lifecycle.binding import duration, leases, listed
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
    """Let the leases expire ``lease`` (setting LEASE) from now. Returns the ids that are still held, each with whether
    somebody wants the message cancelled.

    Raises LeaseLost when one is not, or leaves it out with ``skip_lost``. Then it does not wait, either: a message that
    another transaction has locked is told as held, and not extended this time.
    """
    ids, tokens = leases(listed(deliveries))
    if not ids:
        return {}
    lease = settings.LEASE if lease is None else duration(lease, "lease")
    return dict(call(alias(using), SQL, (ids, tokens, lease, skip_lost)))
