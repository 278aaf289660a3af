"""Find dead letters that wait for a redrive, by handler and reason."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import timedelta
from typing import NamedTuple

from django_pgqueue.doctor.finding import SHOWN_NAMES, Finding, Limits, Severity, age_text, list_text, safe_name
from django_pgqueue.sql.call import call

LATELY = timedelta(hours=1)
"""If a message died within this time, the finding is a warning; older dead letters are a note."""
MOST_LINES, MOST_CHARACTERS = 3, 300
"""How much of an error is shown."""

# The newest ones, whose ids are the highest. An operator discards a message on purpose. Times may be infinite.
DEAD = """
WITH newest AS MATERIALIZED (
    SELECT d.id, d.queue, d.handler, d.reason, d.redriven_at, d.dead_at FROM pgqueue_dead_letter AS d
    ORDER BY d.id DESC
    LIMIT %(most)s
),
dead AS (
    SELECT n.handler, n.reason, count(*) AS letters, array_agg(DISTINCT n.queue ORDER BY n.queue) AS queues,
        max(n.id) AS newest, extract(epoch FROM clock_timestamp()) - extract(epoch FROM max(n.dead_at)) AS seconds
    FROM newest AS n
    WHERE n.redriven_at IS NULL AND n.reason <> 'discarded'
    GROUP BY n.handler, n.reason
    ORDER BY letters DESC, n.handler, n.reason
    LIMIT %(shown)s
)
SELECT g.handler, g.reason, g.letters, g.queues::text[], greatest(0, least(g.seconds, 1e9))::float,
    (SELECT count(*) FROM newest) < %(most)s, d.errors -> -1 ->> 'type', d.errors -> -1 ->> 'message'
FROM dead AS g
JOIN pgqueue_dead_letter AS d ON d.id = g.newest
ORDER BY g.letters DESC, g.handler, g.reason
"""


class DeadGroup(NamedTuple):
    """Hold the dead letters of one handler with one reason. ``seconds``: since the last one. ``complete``: all dead
    letters were looked at. ``kind``, ``text``: the error of the newest one.
    """

    handler: str
    reason: str
    letters: int
    queues: list[str]
    seconds: float
    complete: bool
    kind: str | None
    text: str | None


def examine_dead_letters(using: str, limits: Limits) -> Iterator[Finding]:
    """Report dead letters that were not redriven: a finding for each handler and reason, the SHOWN_NAMES largest."""
    rows = call(using, DEAD, {"most": limits.most, "shown": SHOWN_NAMES})
    yield from (report_dead(DeadGroup(*row)) for row in rows)


def report_dead(group: DeadGroup) -> Finding:
    """Report the dead letters of one handler with one reason."""
    age = timedelta(seconds=group.seconds)
    count = f"{'' if group.complete else 'At least '}{group.letters:,}"
    error = error_text(group)
    shown = f" Its error: {error}" if error else ""
    chosen = f"--handler {shlex.quote(group.handler)} --reason {shlex.quote(group.reason)}"
    return Finding(
        "dead_letters",
        Severity.WARNING if age < LATELY else Severity.NOTE,
        f"{count} message(s) of the handler {safe_name(group.handler)} are dead letters ({safe_name(group.reason)}), "
        f"the last died {age_text(age)} ago; queues: {list_text(group.queues)}.{shown}",
        f"Mend the cause, and then run them again: manage.py pgqueue redrive dead {safe_name(chosen)}. "
        "With --dry-run it only counts them.",
        {
            "handler": group.handler,
            "reason": group.reason,
            "letters": group.letters,
            "complete": group.complete,
            "seconds": group.seconds,
            "queues": group.queues[:SHOWN_NAMES],
            "error": error,
        },
    )


def error_text(group: DeadGroup) -> str:
    """Return type and first lines of the error of the newest dead letter, in one line; empty if it has none."""
    if not group.kind:
        return ""
    lines = [line.strip() for line in (group.text or "").splitlines() if line.strip()][:MOST_LINES]
    text = safe_name(f"{group.kind}: {' / '.join(lines)}" if lines else group.kind)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]} …"
