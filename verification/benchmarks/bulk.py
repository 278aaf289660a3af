"""Many messages at once, from one Python client; rows per second with the commits."""

from __future__ import annotations

import time
from collections.abc import Callable

import psycopg

from .cluster import Cluster
from .design import PGQUEUE
from .measure import Figures, costs, fresh

CHANNELS = 16
CHUNK = 1_000  # rows in one call or statement; COPY takes all at once
HANDLER = "benchmark.noop"
PAYLOAD = '{"flight": 1545, "carrier": "UA", "origin": "EWR", "dest": "IAH", "tail": "N14228", "hour": 5}'

Loader = Callable[[psycopg.Connection, int], None]


def copy_into(table: str) -> Loader:
    def load(connection: psycopg.Connection, rows: int) -> None:
        ids = _channel_ids(connection)
        with connection.cursor().copy(f"COPY {table} (channel_id, handler, payload) FROM STDIN") as copy:
            for first in range(0, rows, CHUNK):
                lines = [f"{ids[n % CHANNELS]}\t{HANDLER}\t{PAYLOAD}\n" for n in range(first, min(first + CHUNK, rows))]
                copy.write("".join(lines))

    return load


def insert_into(table: str) -> Loader:
    def load(connection: psycopg.Connection, rows: int) -> None:
        ids = _channel_ids(connection)
        statement = f"INSERT INTO {table} (channel_id, handler, payload) VALUES "
        for first in range(0, rows, CHUNK):
            values = [
                f"({ids[n % CHANNELS]}, '{HANDLER}', '{PAYLOAD}')" for n in range(first, min(first + CHUNK, rows))
            ]
            connection.execute(statement + ", ".join(values))

    return load


def call_enqueue_many(connection: psycopg.Connection, rows: int) -> None:
    # Binary arrays: as text, writing them costs psycopg twice what the server needs for the rows.
    statement = "SELECT id FROM pgqueue_enqueue_many(%b, %b::jsonb[], %b)"
    for first in range(0, rows, CHUNK):
        names = [f"c{1 + n % CHANNELS}" for n in range(first, min(first + CHUNK, rows))]
        connection.execute(statement, [[HANDLER] * len(names), [PAYLOAD] * len(names), names]).fetchall()


def bulk(cluster: Cluster, load: Loader, *, rows: int) -> Figures:
    with fresh(cluster, PGQUEUE, CHANNELS) as run:
        PGQUEUE.run_script(run.connection, "plain_table")
        load(run.connection, CHUNK)
        run.checkpoint()
        before = run.sample()
        began = time.perf_counter()
        load(run.connection, rows)
        seconds = time.perf_counter() - began
        return Figures(rows / seconds, remarks=costs(before, run.sample(), rows, "row"))


def _channel_ids(connection: psycopg.Connection) -> list[int]:
    found = connection.execute("SELECT id FROM pgqueue_channel WHERE name <> 'default' ORDER BY id").fetchall()
    return [row[0] for row in found]
