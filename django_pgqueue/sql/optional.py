"""Check whether a database has the objects of the optional apps."""

from __future__ import annotations

from typing import NamedTuple

from django_pgqueue.sql.call import call

SQL = "SELECT to_regclass('pgqueue_lake') IS NOT NULL, to_regclass('pgqueue_batch') IS NOT NULL"


class Optional(NamedTuple):
    """Hold which optional apps have tables in a database: ``django_pgqueue.pipeline``, ``django_pgqueue.flow``."""

    pipeline: bool
    flow: bool


def find_optional(using: str) -> Optional:
    """Return which optional apps have tables in the database, without the right to read migrations."""
    return Optional(*call(using, SQL)[0])
