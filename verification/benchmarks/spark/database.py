"""A throw-away server with our tables and an archive of a given size."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from tests.support.paths import REPOSITORY
from verification.benchmarks.cluster import Cluster, throw_away

DATABASE = "lake"
STEP = 250_000  # rows of one INSERT
PER_DAY = 5_000_000
# A payload of about 220 bytes, one message in 20 with an error, 200 tenants.
FILL = """
INSERT INTO pgqueue_archived_message (
    id, queue, channel, handler, payload, priority, attempts, max_attempts, created_at, dequeue_at, leased_at,
    lease_token, archived_at, outcome, errors, worker)
SELECT i, 'default', 'tenant ' || i % 200, 'shop.confirm_order',
    jsonb_build_object('order', i, 'customer', md5(i::text), 'items', jsonb_build_array(i % 7, i % 11, i % 13),
        'address', md5((i + 1)::text) || md5((i + 2)::text), 'note', md5((i + 3)::text)),
    0, 1 + (i % 20 = 0)::int, 5, at, at, at + interval '0.5 s', gen_random_uuid(),
    at + interval '0.7 s', 'completed',
    CASE WHEN i % 20 = 0 THEN jsonb_build_array(jsonb_build_object('attempt', 1, 'type', 'TimeoutError')) END, 'host:1'
FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS i,
    LATERAL (SELECT %(day)s::timestamptz + (i %% 80000) * interval '1 s' AS at) AS t
""".replace("i % ", "i %% ")


@contextmanager
def archive(rows: int) -> Iterator[Cluster]:
    """A server whose archive has so many rows, in partitions of past days, vacuumed and on disk."""
    with throw_away(max_wal_size="8GB") as cluster:
        cluster.create_database(DATABASE)
        manage = [sys.executable, str(REPOSITORY / "testproject" / "manage.py"), "migrate", "--skip-checks", "-v0"]
        environment = {"DATABASE_URL": cluster.url(DATABASE), "DJANGO_SETTINGS_MODULE": "testproject.settings"}
        subprocess.run(manage, env=os.environ | environment, check=True)
        with cluster.connect(DATABASE) as session:
            fill_archive(session, rows)
            session.execute("VACUUM (ANALYZE)")
            session.execute("CHECKPOINT")
        yield cluster


def fill_archive(session: psycopg.Connection, rows: int) -> None:
    """In partitions of past days."""
    for first in range(0, rows, STEP):
        day = f"2026-03-{first // PER_DAY + 1:02}"
        session.execute(
            f"CREATE TABLE IF NOT EXISTS pgqueue_archived_message_{day.replace('-', '')}"
            f" PARTITION OF pgqueue_archived_message FOR VALUES FROM ('{day} 00:00+00') TO ('{day} 24:00+00')"
        )
        session.execute(FILL, {"first": first, "last": min(first + STEP, rows) - 1, "day": f"{day} 00:00+00"})
