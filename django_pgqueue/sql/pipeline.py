"""Whether a database has what the optional app ``django_pgqueue.pipeline`` makes."""

from __future__ import annotations

from django_pgqueue.sql.call import call

SQL = "SELECT to_regclass('pgqueue_lake') IS NOT NULL"


def has_pipeline(using: str) -> bool:
    """Return whether the tables of the pipeline are there, without asking for the right to read migrations."""
    found: bool = call(using, SQL)[0][0]
    return found
