"""peek: return the messages that come next, without a lease."""

from __future__ import annotations

from django_pgqueue import codecs
from django_pgqueue.delivery import Delivery
from django_pgqueue.lifecycle.arguments import checked_text, checked_whole, optional_text
from django_pgqueue.lifecycle.binding import to_deliveries
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import call

SQL = """
SELECT id, channel, handler, payload, body, headers, priority, attempts, max_attempts, NULL, NULL, state,
created_at::text, dequeue_at::text, NULL, last_leased_at::text
FROM pgqueue_peek(%s::text, %s::text, %s::integer) AS p
"""
# A codec may need the context for its keys.
CONTEXT = "(SELECT c.context FROM pgqueue_channel AS c WHERE c.queue = %s::text AND c.name = p.channel)"
WITH_CONTEXT = SQL.replace("dequeue_at::text, NULL,", f"dequeue_at::text, {CONTEXT},")


def peek(
    queue: str = "default", limit: int = 1, *, channel: str | None = None, using: str | None = None
) -> list[Delivery]:
    """Return ready messages of a channel, or of the line of a queue, without leasing them.

    ``limit``: the most messages to return. ``channel``: its name; default: all channels, in the order of the line.
    ``using``: database alias; default: the queue's. The deliveries have no token.
    """
    given = (checked_text(queue, "queue"), optional_text(channel, "channel"), checked_whole(limit, "limit", least=0))
    if codecs.current() is None:
        return to_deliveries(queue, call(alias(using), SQL, given))[0]
    return to_deliveries(queue, call(alias(using), WITH_CONTEXT, (queue, *given)))[0]
