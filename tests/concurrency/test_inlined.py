"""A function in SQL becomes a part of the statement that calls it: otherwise each call plans it anew."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.sessions import Session, column
from tests.support.verbs import dequeue, enqueue, limit_set, make_channel, retry, set_queue, settle

SQL_FUNCTIONS = """
SELECT f.funcname FROM pg_stat_xact_user_functions AS f
JOIN pg_proc AS p ON p.oid = f.funcid
JOIN pg_language AS l ON l.oid = p.prolang AND l.lanname = 'sql'
"""
SETTINGS: dict[str, Callable[[Session], None]] = {
    "no limits": lambda session: None,
    "a queue with max_concurrency": lambda session: set_queue(session, max_concurrency=6),
    "a queue with a rate": lambda session: set_queue(session, release_interval="1 millisecond", release_burst=100),
    "a queue with shares": lambda session: set_queue(session, fairness="share", max_concurrency=6, max_share=0.9),
    "a channel with limits": lambda session: make_channel(
        session, "a", max_concurrency=2, release_interval="1 millisecond", max_size=100
    ),
    "an ordered channel": lambda session: make_channel(session, "a", ordered=True),
    "a shared limit": lambda session: limit_set(session, "api", max_concurrency=2),
}


@pytest.mark.parametrize("settings", SETTINGS)
def test_no_statement_calls_a_function_in_sql(session: Session, settings: str) -> None:
    make_channel(session, "a")
    SETTINGS[settings](session)
    limits = ["api"] if settings == "a shared limit" else None
    with session.transaction():
        session.execute("SET LOCAL track_functions = 'all'")
        for key in (None, "k", "k"):
            enqueue(session, "a", order_key=key, limits=limits)
            enqueue(session, limits=limits)
        for limit in (1, 1, 4, 4):
            leases = dequeue(session, limit)
            settle(session, leases[1:])
            retry(session, leases[:1])
            session.execute("SELECT pgqueue_is_contended('{default}'), pgqueue_next_due('{default}')")
        called = column(session, SQL_FUNCTIONS)

    assert called == []
