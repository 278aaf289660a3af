"""Read the history of a redriven message: the dead letters that it comes from, and the messages that follow it."""

from __future__ import annotations

from dataclasses import dataclass

from django_pgqueue.sql.call import call

MOST_REDRIVES = 50

# Backwards by redriven_from, forwards by redriven_to, and where each of them is now; by the keys of the tables.
SQL = """
WITH RECURSIVE before (id, step) AS (
    SELECT %s::bigint, -1
    UNION ALL
    SELECT d.redriven_from, b.step - 1
    FROM before AS b
    JOIN pgqueue_dead_letter AS d ON d.id = b.id
    WHERE d.redriven_from IS NOT NULL AND b.step > -%s
),
since (id, step) AS (
    SELECT %s::bigint, 1
    UNION ALL
    SELECT d.redriven_to, s.step + 1
    FROM since AS s
    JOIN pgqueue_dead_letter AS d ON d.id = s.id
    WHERE d.redriven_to IS NOT NULL AND s.step < %s
)
SELECT f.id, f.step,
    CASE
        WHEN EXISTS (SELECT FROM pgqueue_message AS m WHERE m.id = f.id) THEN 'message'
        WHEN EXISTS (SELECT FROM pgqueue_dead_letter AS d WHERE d.id = f.id) THEN 'deadletter'
        WHEN EXISTS (SELECT FROM pgqueue_archived_message AS a WHERE a.id = f.id) THEN 'archivedmessage'
        ELSE ''
    END
FROM (SELECT b.id, b.step FROM before AS b UNION ALL SELECT s.id, s.step FROM since AS s) AS f
WHERE f.id IS NOT NULL
ORDER BY f.step
"""


@dataclass(frozen=True, slots=True)
class RedriveEntry:
    """Hold one message of the history. ``step``: -1 the one before, 1 the next one. ``model``: the admin's name of its
    table; empty if retention has dropped it."""

    id: int
    step: int
    model: str


def redrive_history(redriven_from: int | None, redriven_to: int | None, *, using: str) -> list[RedriveEntry]:
    """Return the other messages of the history, the earliest first; at most 50 in each direction."""
    if redriven_from is None and redriven_to is None:
        return []
    return [RedriveEntry(*row) for row in call(using, SQL, (redriven_from, MOST_REDRIVES, redriven_to, MOST_REDRIVES))]
