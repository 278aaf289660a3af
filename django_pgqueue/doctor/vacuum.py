"""Examine autovacuum: the storage settings of the queue's tables, and how often the server looks at them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from django_pgqueue.doctor.finding import Finding, Limits, Severity
from django_pgqueue.sql import files
from django_pgqueue.sql.call import call

OPTIONS = """
SELECT c.relname::text, coalesce(c.reloptions, '{}')
FROM pg_class AS c
WHERE c.relname = ANY (%s::text[]) AND pg_table_is_visible(c.oid)
ORDER BY c.relname
"""
NAPTIME = "SELECT extract(epoch FROM current_setting('autovacuum_naptime')::interval)::float"
LONGEST_NAP_SECONDS = 60.0
SET_LATER = re.compile(r"ALTER TABLE (\w+) SET \((.*?)\);", re.DOTALL)
AT_ONCE = re.compile(r"CREATE TABLE (\w+) \((?:(?!;).)*?\n\) WITH \((.*?)\);", re.DOTALL)


def expected_options() -> dict[str, dict[str, str]]:
    """Return the storage options of each table, as the SQL files set them."""
    found: dict[str, dict[str, str]] = {}
    for path in files.file_paths("tables"):
        text = path.read_text(encoding="utf-8")
        for pattern in (AT_ONCE, SET_LATER):
            for table, options in pattern.findall(text):
                found[table] = dict(re.findall(r"(\w+) = ([\w.]+)", options))
    return found


def examine_vacuum(using: str, limits: Limits) -> Iterator[Finding]:
    """Report settings of autovacuum that differ from those that the queue needs."""
    wanted = expected_options()
    for table, options in call(using, OPTIONS, (list(wanted),)):
        there = dict(option.split("=", 1) for option in options)
        differing = {key: value for key, value in wanted[table].items() if there.get(key) != value}
        if differing:
            yield other_settings(table, differing, there)
    [(seconds,)] = call(using, NAPTIME)
    if seconds > LONGEST_NAP_SECONDS:
        yield Finding(
            "vacuum_naps",
            Severity.NOTE,
            f"autovacuum_naptime is {seconds:.0f} s: dead rows of the line slow each dequeue down for that time.",
            "Set autovacuum_naptime to 1 min or less, and reload.",
            {"seconds": seconds},
        )


def other_settings(table: str, differing: dict[str, str], there: dict[str, str]) -> Finding:
    """Report a table with other storage settings."""
    changed = ", ".join(f"{key} is {there.get(key, 'not set')}, not {value}" for key, value in differing.items())
    settings = ", ".join(f"{key} = {value}" for key, value in differing.items())
    return Finding(
        "vacuum_settings",
        Severity.NOTE,
        f"The storage settings of {table} are not those of this release: {changed}.",
        f"Unless this is intended: ALTER TABLE {table} SET ({settings})",
        {"table": table, "expected": differing, "found": {key: there.get(key) for key in differing}},
    )
