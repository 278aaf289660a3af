"""Check whether a database has the objects of the optional app ``django_pgqueue.pipeline``."""

from __future__ import annotations

from django_pgqueue.sql.call import call

SQL = "SELECT to_regclass('pgqueue_lake') IS NOT NULL"


def has_pipeline(using: str) -> bool:
    """Return whether the tables of the pipeline exist, without the right to read migrations."""
    found: bool = call(using, SQL)[0][0]
    return found
