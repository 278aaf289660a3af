"""spend: correct what a message costs while its handler runs."""

from __future__ import annotations

from django_pgqueue.delivery import Delivery
from django_pgqueue.lifecycle.arguments import checked_whole
from django_pgqueue.lifecycle.binding import delivery_list
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call

SQL = "SELECT pgqueue_spend(%s::bigint, %s::uuid, %s::integer)"


def spend(delivery: Delivery, cost: int, *, using: str | None = None) -> int:
    """Correct what a leased message costs, when its handler knows it better than the enqueuer did.

    The rates of its channel, its queue and its shared limits are charged for the difference, or get it back, with the
    next lease. ``max_cost`` counts the new cost at once. A later delivery of the message has the new cost.

    ``delivery``: the message that the handler works on. ``cost``: the whole cost of this delivery, 1 or more.
    ``using``: database alias; default: the queue's.

    Returns the cost that was known before. Raises LeaseLost if the lease is lost, and InvalidMessage for a ``cost``
    that is not allowed, or a ``delivery`` that is none.
    """
    checked_whole(cost, "cost", least=1)
    [leased] = delivery_list([delivery])
    [(before,)] = call(alias(using), SQL, (leased.id, leased.token, cost))
    return int(before)
