"""The effect of a crash of the server on a database that was made a moment ago."""

from __future__ import annotations

from typing import Any

import psycopg

from verification.chaos.server import Server


def test_a_copied_database_survives_a_crash_before_its_first_checkpoint(server: Server) -> None:
    """PostgreSQL gives its sequences back values that they had given away: ticks and lanes must go on all the same."""
    url = server.make_database("copied")
    with psycopg.connect(url, autocommit=True) as session:
        session.execute("SELECT pgqueue_channel_set('default', 'a'), pgqueue_channel_set('default', 'b')")
        work(session)
    server.kill(all_of_it=True)
    server.recover()
    with psycopg.connect(url, autocommit=True) as session:
        work(session)


def work(session: psycopg.Connection[Any]) -> None:
    session.execute(
        "SELECT pgqueue_enqueue('work', '{}', c.name) FROM unnest(ARRAY['a', 'b']) AS c (name), generate_series(1, 5)"
    )
    taken = 0
    for _ in range(20):
        session.execute("SELECT pgqueue_tick()")
        taken += len(session.execute("SELECT id FROM pgqueue_dequeue(p_limit => 1)").fetchall())
    assert taken == 10
    assert session.execute("SELECT count(*) FROM pgqueue_sweep()").fetchone() == (1,)
