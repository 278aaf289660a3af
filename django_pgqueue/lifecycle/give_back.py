"""give_back: return what was not started, as if it had never been taken."""

from __future__ import annotations

from collections.abc import Iterable

from django_pgqueue.delivery import Delivery, Leased
from django_pgqueue.lifecycle.binding import leases, listed
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call

SQL = "SELECT id FROM pgqueue_defer(%s::bigint[], %s::uuid[], p_skip_lost => true)"


def give_back(deliveries: Delivery | Iterable[Leased], *, using: str | None = None) -> set[int]:
    """Deliver again at once, to whoever comes, in the old place of each; the attempt does not count. Returns the ids.

    Lost ones are left out; one that somebody wants cancelled goes to the archive.
    """
    returned = listed(deliveries)
    return {row[0] for row in call(alias(using), SQL, leases(returned))} if returned else set()
