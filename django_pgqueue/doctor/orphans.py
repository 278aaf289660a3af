"""Find messages of channels whose rows do not exist: no worker gets them."""

from __future__ import annotations

from collections.abc import Iterator

from django_pgqueue.doctor.finding import SHOWN_NAMES, Finding, Limits, Severity
from django_pgqueue.sql.call import call

# Reads the oldest messages: a message that is never delivered becomes one of them.
ORPHANS = """
SELECT m.channel_id, count(*)
FROM (SELECT o.channel_id FROM pgqueue_message AS o ORDER BY o.id LIMIT %s) AS m
WHERE NOT EXISTS (SELECT FROM pgqueue_channel AS c WHERE c.id = m.channel_id)
GROUP BY m.channel_id
ORDER BY m.channel_id
"""


def examine_orphans(using: str, limits: Limits) -> Iterator[Finding]:
    """Report messages without a channel."""
    rows: list[tuple[int, int]] = call(using, ORPHANS, (limits.most,))
    if not rows:
        return
    messages = sum(count for _, count in rows)
    ids = ", ".join(str(channel) for channel, _ in rows[:SHOWN_NAMES]) + (", …" if len(rows) > SHOWN_NAMES else "")
    yield Finding(
        "channel_missing",
        Severity.CRITICAL,
        f"At least {messages} message(s) belong to channels whose rows do not exist, so no worker gets them. "
        f"Ids of the channels: {ids}.",
        "The rows were deleted by hand; channel_release is the way to remove a channel. INSERT each row into "
        "pgqueue_channel again, with this id, its queue and its name, then run pgqueue doctor --fix; or DELETE the "
        "messages from pgqueue_message.",
        {"messages": messages, "channels": len(rows), "shown": [channel for channel, _ in rows[:SHOWN_NAMES]]},
    )
