"""Find days of which retention dropped messages before a lake had them."""

from __future__ import annotations

from collections.abc import Iterator

from django_pgqueue.doctor.finding import SHOWN_NAMES, Finding, Limits, Severity, safe_name
from django_pgqueue.sql.call import call

# The table belongs to the app of the pipeline, which a project may do without.
HAS_LAKES = "SELECT to_regclass('pgqueue_lake') IS NOT NULL"
LOST = """
SELECT l.name, sum(d.value::bigint)::bigint, array_agg(d.key ORDER BY d.key)
FROM pgqueue_lake AS l
CROSS JOIN jsonb_each_text(l.lost) AS d
GROUP BY l.name
ORDER BY l.name
LIMIT %s
"""


def examine_lakes(using: str, limits: Limits) -> Iterator[Finding]:
    """Report the lakes that have lost messages, in one finding."""
    [(has_lakes,)] = call(using, HAS_LAKES)
    lakes = call(using, LOST, (limits.most,)) if has_lakes else []
    if lakes:
        yield lake_lost(lakes)


def lake_lost(lakes: list[tuple[str, int, list[str]]]) -> Finding:
    """Report lakes: name, messages and days."""
    shown = [
        {"lake": safe_name(name), "messages": messages, "days": days[:SHOWN_NAMES]}
        for name, messages, days in lakes[:SHOWN_NAMES]
    ]
    problems = [
        f"{safe_name(name)} lacks {messages:,} message{'s' * (messages != 1)} ({day_text(days)})"
        for name, messages, days in lakes[:SHOWN_NAMES]
    ]
    more = f"; and {len(lakes) - SHOWN_NAMES} more lakes" if len(lakes) > SHOWN_NAMES else ""
    return Finding(
        "lake_lost",
        Severity.WARNING,
        f"Retention dropped messages before a lake had them: {'; '.join(problems)}{more}.",
        "Only a backup of the database still has them. Set KEEP_UNTIL_EXPORTED, or run pgqueue lake export more often "
        "than retention drops partitions. Then forget the loss as the owner of the tables: UPDATE pgqueue_lake SET "
        "lost = '{}' WHERE name = …; if the lake is not used any more, delete its row.",
        {"lakes": len(lakes), "shown": shown},
    )


def day_text(days: list[str]) -> str:
    """Return the days, which are in order, as ``2026-11-21`` or ``3 days, 2026-11-21 to 2026-11-25``."""
    return days[0] if len(days) == 1 else f"{len(days):,} days, {days[0]} to {days[-1]}"
