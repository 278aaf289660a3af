"""Name the lakes that retention waits for."""

from __future__ import annotations

from pathlib import Path

from django_pgqueue.conf import settings
from django_pgqueue.redaction import printable, redact
from django_pgqueue.sql.call import call

MOST_LAKES = 5
# The app of the pipeline may not be installed, and the role of a worker need not see its tables.
SEES_LAKES = "SELECT coalesce(has_table_privilege(to_regclass('pgqueue_lake'), 'SELECT'), false)"
LAKES = """
SELECT l.name, l.path, to_char(l.exported_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') FROM pgqueue_lake AS l
ORDER BY l.exported_at, l.name LIMIT %s
"""


def lakes_waited_for(using: str) -> list[str]:
    """Return a sentence for each lake that retention waits for, the one with the oldest export first.

    The list is empty without KEEP_UNTIL_EXPORTED, and where the role may not see the lakes.
    """
    if not settings.KEEP_UNTIL_EXPORTED or not call(using, SEES_LAKES)[0][0]:
        return []
    lakes = call(using, LAKES, (MOST_LAKES,))
    if not lakes:
        return ["No lake was exported yet: run pgqueue lake export."]
    return [lake_text(name, path, exported_at) for name, path, exported_at in lakes]


def lake_text(name: str, path: str, exported_at: str) -> str:
    """Return the sentence about a lake. A worker may run on another machine than the export."""
    text = f"Lake {printable(redact(name))} in {printable(redact(path))}: the last export was at {exported_at} UTC"
    if Path(path).is_dir():
        return f"{text}."
    return (
        f"{text}; this machine has no such folder. If it is gone everywhere, delete the lake's row in pgqueue_lake, or "
        "in the admin: retention waits for it."
    )
