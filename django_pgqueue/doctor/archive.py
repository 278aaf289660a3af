"""Examine whether the archive has partitions for the coming days. System checks cover today and tomorrow (see
drift)."""

from __future__ import annotations

from collections.abc import Iterator

from django_pgqueue.conf import settings
from django_pgqueue.doctor.finding import Finding, Limits, Severity
from django_pgqueue.sql.call import call

MISSING = """
SELECT d.day::date::text
FROM (SELECT (clock_timestamp() AT TIME ZONE 'UTC')::date AS today) AS n
CROSS JOIN generate_series(n.today + 2, n.today + %s, interval '1 day') AS d (day)
WHERE NOT EXISTS (
    SELECT FROM pg_inherits AS i
    JOIN pg_class AS c ON c.oid = i.inhrelid
    WHERE i.inhparent = to_regclass('pgqueue_archived_message')
        AND (c.relname = 'pgqueue_archived_message_' || to_char(d.day, 'YYYYMMDD')
            OR pg_get_expr(c.relpartbound, c.oid) = 'DEFAULT'))
ORDER BY d.day
"""


def examine_archive(using: str, limits: Limits) -> Iterator[Finding]:
    """Report days without a partition."""
    # The first prune after midnight makes the partition of the last day, and may be late.
    days = [day for (day,) in call(using, MISSING, (settings.PARTITIONS_AHEAD - 1,))]
    if days:
        yield Finding(
            "partitions_behind",
            Severity.WARNING,
            f"The archive has no partition for {len(days)} of the next {settings.PARTITIONS_AHEAD} days, the first "
            f"{days[0]}: no worker prunes, or a long transaction blocks the prune.",
            "Start a worker, or run manage.py sweepqueue or SELECT pgqueue_prune(): each makes the partitions.",
            {"missing": days},
        )
