"""A bulk enqueue into a channel that is full, and whose policy makes room."""

from __future__ import annotations

import pytest

from tests.support.sessions import Session as Database
from tests.support.sessions import column, one
from tests.support.verbs import make_channel


def enqueue_in_bulk(database: Database, job: str, messages: int) -> tuple[object, ...] | None:
    """Enqueue messages with the payloads 1, 2 … as the tasks of the data source do."""
    stage = one(database, "SELECT pgqueue_ingest_open(%s)", job)
    database.execute(
        f"INSERT INTO pgqueue_stage_{stage} (channel, handler, payload)"
        " SELECT 'small', 'mail.send', to_jsonb(i) FROM generate_series(1, %s) AS i",
        [messages],
    )
    return database.execute(
        "SELECT created, duplicates, dropped FROM pgqueue_ingest(%s, 0, ARRAY[%s]::bigint[], %s)",
        [job, stage, messages],
    ).fetchone()


@pytest.mark.parametrize(("policy", "left"), [("drop_oldest", [3, 4, 5]), ("replace", [5])])
def test_the_newest_messages_stay_and_the_others_are_archived_as_dropped(
    database: Database, policy: str, left: list[int]
) -> None:
    make_channel(database, "small", max_size=3, full_policy=policy)
    assert enqueue_in_bulk(database, "first", 2) == (2, 0, 0)

    assert enqueue_in_bulk(database, "second", 5) == (5, 0, 0)

    assert column(database, "SELECT m.payload FROM pgqueue_message AS m ORDER BY m.id") == left
    gone = database.execute("SELECT a.payload, a.outcome FROM pgqueue_archived_message AS a ORDER BY a.id").fetchall()
    assert gone == [(number, "dropped") for number in (1, 2, *range(1, 6 - len(left)))]
