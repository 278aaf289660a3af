"""A message that is not archived is counted, explained and announced to listeners like any other."""

from __future__ import annotations

import pytest
from django.db import connection

from django_pgqueue import channel_purge, channel_set, complete, dequeue, explain_message, metrics, pop, queue_set
from django_pgqueue.models import Activity
from tests.lifecycle.test_archive import send
from tests.support.sql import sql, value

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("archive", ["full", "outcome", "none"])
def test_figures_and_totals_count_what_is_not_archived(archive: str) -> None:
    sql("DELETE FROM pgqueue_activity")
    queue_set(archive=archive)
    for _ in range(3):
        send(dedupe_key=None)
    complete(dequeue(limit=2))
    channel_purge(channel="default")
    [found] = metrics()
    assert found.total == 3
    ever = "'-infinity', '1:1:', '9999999999:9999999999:'"
    assert value(f"SELECT s.settled FROM pgqueue_measure_settled({ever}) AS s") == 3
    [minute] = Activity.objects.filter(channel=None, handler=None, minutes=1)
    assert (minute.completed, minute.cancelled, minute.retries) == (2, 1, 0)
    assert (sum(minute.waits), sum(minute.runs)) == (2, 2)
    assert sql("SELECT 1 FROM pgqueue_unarchived") == []
    [found] = metrics()
    assert found.total == 3, "neither twice nor forgotten when it is measured"


def test_messages_that_no_measurement_saw_in_time_count_in_the_total() -> None:
    queue_set(archive="none")
    send()
    pop()
    sql("UPDATE pgqueue_unarchived SET settled_at = settled_at - interval '2 hours'")
    sql("SELECT pgqueue_measure_tidy(NULL, clock_timestamp())")
    assert sql("SELECT 1 FROM pgqueue_unarchived") == []
    [found] = metrics()
    assert found.total == 1


def test_explain_says_that_the_payload_was_not_archived() -> None:
    sent = send()
    complete(dequeue(), archive="outcome")
    [reason] = explain_message(sent)
    assert reason.code == "completed"
    assert reason.sentence.endswith("Its payload was not archived.")


def test_explain_names_the_queue_or_channel_that_archives_nothing() -> None:
    sent = send()
    complete(dequeue(), archive="none")
    [reason] = explain_message(sent)
    assert reason.code == "unknown"
    assert reason.sentence.endswith("or it was settled and nothing was archived of it (archive = none).")
    channel_set(channel="acme", archive="none")
    [reason] = explain_message(sent)
    assert reason.sentence.endswith('(archive = none, as is set for channel "acme" of queue "default").')
    queue_set(archive="none")
    for name in ("b", "c"):
        channel_set(channel=name, archive="none")
    [reason] = explain_message(sent)
    assert 'as is set for queue "default", channel "acme" of queue "default"' in reason.sentence
    assert reason.sentence.endswith(" and others).")


@pytest.mark.django_db(transaction=True)
def test_events_tell_of_what_is_not_archived() -> None:
    queue_set(archive="none", events=True)
    sent = send()
    connection.ensure_connection()
    raw = connection.connection
    raw.execute("LISTEN pgqueue_events")
    complete(dequeue())
    popped = send()
    pop()
    payloads = [note.payload for note in raw.notifies(timeout=5, stop_after=4)]
    raw.execute("UNLISTEN pgqueue_events")
    assert any('"event": "completed"' in text and str(sent) in text for text in payloads)
    assert any('"event": "popped"' in text and str(popped) in text for text in payloads)
