"""Cut the dead letters into ranges of (xid, id): their rows move when they are redriven, so ctid is of no use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg

from django_pgqueue.spark.source import only

# The statistics of the table are those of another time, if there are any. The size of a TOASTed value is in its row.
SIZE = """
SELECT coalesce(avg(n.bytes), 0)::bigint FROM (
    SELECT 300 + pg_column_size(d.payload) + coalesce(pg_column_size(d.body), 0)
        + coalesce(pg_column_size(d.errors), 0) + coalesce(pg_column_size(d.state), 0) AS bytes
    FROM pgqueue_dead_letter AS d WHERE d.xid >= %s::text::xid8 AND d.xid < %s::text::xid8
    ORDER BY d.xid, d.id LIMIT 1000) AS n
"""
BOUNDARY = """
SELECT d.xid::text::bigint, d.id FROM pgqueue_dead_letter AS d
WHERE (d.xid, d.id) > (%s::text::xid8, %s) AND d.xid < %s::text::xid8
ORDER BY d.xid, d.id OFFSET %s LIMIT 1
"""
IS_LEFT = """
SELECT EXISTS (
    SELECT FROM pgqueue_dead_letter AS d WHERE (d.xid, d.id) > (%s::text::xid8, %s) AND d.xid < %s::text::xid8)
"""
FEWEST_ROWS, MOST_ROWS = 100, 50_000  # rows of a range


def find_ranges(connection: psycopg.Connection[Any], xid: int, horizon: int, range_bytes: int) -> Iterator[str]:
    """Yield conditions for the letters of transactions from ``xid`` up to the horizon.

    ``range_bytes``: the approximate size of a range in bytes, by the size of the first 1,000 letters.
    """
    [size] = only(connection.execute(SIZE, [xid, horizon]))
    rows = min(MOST_ROWS, max(FEWEST_ROWS, range_bytes // max(size, 1)))
    # This id is below all ids, so that all letters of the first transaction are read.
    last = (xid, -(2**63))
    while True:
        found = connection.execute(BOUNDARY, [*last, horizon, rows - 1]).fetchone()
        if found is None:
            if only(connection.execute(IS_LEFT, [*last, horizon]))[0]:
                yield f"(xid, id) > ('{last[0]}'::xid8, {last[1]}) AND xid < '{horizon}'::xid8"
            return
        yield f"(xid, id) > ('{last[0]}'::xid8, {last[1]}) AND (xid, id) <= ('{found[0]}'::xid8, {found[1]})"
        last = found
