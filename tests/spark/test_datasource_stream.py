"""The reader of a stream, as Spark calls it: batches under leases, settled with the next one."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from django_pgqueue.spark.datasource.options import StreamOptions
from django_pgqueue.spark.datasource.stream_reader import LeaseExtender, StreamReader
from django_pgqueue.spark.datasource.tables import TABLES, source_schema
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.source import SourceLost
from tests.support.cases import cases
from tests.support.sessions import Session as Database
from tests.support.sessions import one

Offset = dict[str, Any]
Open = Callable[..., StreamReader]
NOTHING: Offset = {}


def send(database: Database, messages: int) -> None:
    database.execute(
        "SELECT count(*) FROM pgqueue_enqueue_many(array_fill('work'::text, ARRAY[%(n)s]),"
        " ARRAY(SELECT jsonb_build_object('n', i) FROM generate_series(1, %(n)s) AS i))",
        {"n": messages},
    )


def ids(reader: StreamReader, start: Offset, end: Offset) -> list[int]:
    return [i for part in reader.partitions(start, end) for batch in reader.read(part) for i in batch["id"].to_pylist()]


@pytest.fixture
def opened(dsn: str) -> Iterator[Open]:
    """The reader that Spark would make, for what need not run in Spark; its thread is stopped at the end."""
    readers: list[StreamReader] = []

    def make(**options: str) -> StreamReader:
        schema = source_schema(TABLES["message"])
        readers.append(StreamReader(StreamOptions.of({"source": dsn, **options}), schema))
        return readers[-1]

    yield make
    for made in readers:
        made.stop()


def test_a_batch_is_leased_then_settled_when_the_next_is_planned(database: Database, opened: Open) -> None:
    send(database, 25)
    stream = opened(partitions="3")
    assert stream.initialOffset() == NOTHING
    end = stream.latestOffset(NOTHING, ReadMaxRows(10))
    read = ids(stream, NOTHING, end)

    assert (len(read), len({*read}), len(stream.partitions(NOTHING, end))) == (10, 10, 3)
    assert one(database, "SELECT count(*) FROM pgqueue_message WHERE status = 2 AND id = ANY(%s)", read) == 10
    after = stream.latestOffset(end, ReadMaxRows(10))
    assert one(database, "SELECT count(*) FROM pgqueue_archived_message WHERE id = ANY(%s)", read) == 10
    assert {*ids(stream, end, after)}.isdisjoint(read)
    assert stream.partitions(after, after) == []


def test_a_batch_is_the_same_after_a_crash(database: Database, opened: Open) -> None:
    send(database, 10)
    before = opened()
    end = before.latestOffset(NOTHING, ReadMaxRows(4))
    read = ids(before, NOTHING, end)
    database.execute("UPDATE pgqueue_message SET lease_expires_at = now() + interval '1 second' WHERE status = 2")

    again = opened(lease="1h")
    assert sorted(ids(again, NOTHING, end)) == sorted(read)
    left = "SELECT min(lease_expires_at) > now() + interval '50 minutes' FROM pgqueue_message WHERE status = 2"
    assert one(database, left), "the leases are extended before the batch is read again"
    assert len(ids(again, end, again.latestOffset(end, ReadMaxRows(10)))) == 6
    assert one(database, "SELECT array_agg(id ORDER BY id) FROM pgqueue_archived_message") == sorted(read)


def test_a_message_whose_lease_is_lost_is_neither_read_again_nor_settled(
    database: Database, opened: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    send(database, 3)
    before = opened()
    end = before.latestOffset(NOTHING, ReadMaxRows(3))
    lost = min(ids(before, NOTHING, end))
    database.execute("UPDATE pgqueue_message SET lease_expires_at = now() WHERE id = %s", [lost])
    database.execute("SELECT pgqueue_sweep()")
    again = opened()
    left = ids(again, NOTHING, end)

    assert len(left) == 2
    assert lost not in left
    assert "lost the leases of 1 messages: they are delivered to another consumer" in capsys.readouterr().err
    again.latestOffset(end, ReadMaxRows(1))
    assert one(database, "SELECT array_agg(id ORDER BY id) FROM pgqueue_archived_message") == sorted(left)
    assert "lost the leases of 1 messages: they were processed here, but also" in capsys.readouterr().err


def test_a_batch_that_was_settled_before_a_restart_is_not_called_lost(
    database: Database, opened: Open, capsys: pytest.CaptureFixture[str]
) -> None:
    send(database, 5)
    before = opened()
    end = before.latestOffset(NOTHING, ReadMaxRows(5))
    before.latestOffset(end, ReadMaxRows(5))

    assert opened().latestOffset(end, ReadMaxRows(5)) == end
    assert capsys.readouterr().err == ""


def test_a_run_with_available_now_takes_what_was_there_when_it_began(database: Database, opened: Open) -> None:
    send(database, 5)
    stream = opened()
    stream.prepareForTriggerAvailableNow()
    send(database, 20)
    first = stream.latestOffset(NOTHING, ReadMaxRows(3))
    second = stream.latestOffset(first, ReadMaxRows(3))

    assert (first["messages"], second["messages"]) == (3, 2)
    assert stream.latestOffset(second, ReadMaxRows(3)) == second
    assert one(database, "SELECT count(*) FROM pgqueue_archived_message") == 5


def test_a_reader_travels_without_its_thread(database: Database, opened: Open) -> None:
    send(database, 1)
    stream = opened()
    stream.latestOffset(NOTHING, ReadMaxRows(1))
    travelled = pickle.loads(pickle.dumps(stream))

    assert (travelled.extender, travelled.options) == (None, stream.options)


class Extended:
    """What a `LeaseExtender` extends: it answers as it is told to, and counts."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)
        self.calls = threading.Semaphore(0)

    def extend(self) -> int:
        self.calls.release()
        if self.answers and (error := self.answers.pop(0)):
            raise error
        return 1


def test_leases_are_extended_until_the_end() -> None:
    extender = LeaseExtender((stream := Extended()).extend, 0.01)
    for _ in range(5):
        assert stream.calls.acquire(timeout=280)
    extender.stop()
    assert not extender.is_alive()


def test_leases_are_tried_again_while_the_server_is_away_and_given_up_at_another_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stream = Extended(SourceLost("away"), SourceLost("away"), None, PipelineError("refused"))
    extender = LeaseExtender(stream.extend, 0.01)
    extender.join(280)

    assert not extender.is_alive()
    assert stream.answers == []
    error_text = capsys.readouterr().err
    assert error_text.count("retrying: away") == 2
    assert "no longer extended: refused" in error_text


@cases(
    ("options", "error_text"),
    [
        ({"lease": "5"}, "at least 10 seconds"),
        ({"lease": "soon"}, "lease is wrong"),
        ({"table": "archive"}, "Unknown option table"),
        ({"batch_messages": "0"}, "whole number from 1 on"),
    ],
)
def test_wrong_options_are_reported(dsn: str, options: dict[str, str], error_text: str) -> None:
    with pytest.raises(PipelineError, match=error_text):
        StreamOptions.of({"source": dsn, **options})
