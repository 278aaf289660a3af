from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from django_pgqueue.spark.datasource.claims import Claims, LeaseExtender
from django_pgqueue.spark.datasource.options import StreamOptions
from django_pgqueue.spark.datasource.stream_reader import StreamReader
from django_pgqueue.spark.datasource.tables import TABLES, source_schema
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.source import SourceLost
from tests.support.cases import cases
from tests.support.sessions import Session as Database
from tests.support.sessions import one

if TYPE_CHECKING:
    pass


def send(database: Database, messages: int, channel: str = "default") -> None:
    database.execute(
        "SELECT count(*) FROM pgqueue_enqueue_many(array_fill('work'::text, ARRAY[%(n)s]),"
        " ARRAY(SELECT jsonb_build_object('n', i) FROM generate_series(1, %(n)s) AS i),"
        " array_fill(%(channel)s::text, ARRAY[%(n)s]))",
        {"n": messages, "channel": channel},
    )


def reader(dsn: str, **options: str) -> StreamReader:
    """The reader that Spark would make, for what need not run in Spark."""
    return StreamReader(StreamOptions.of({"source": dsn, "stream": "s", **options}), source_schema(TABLES["message"]))


def ids(reader: StreamReader, start: dict[str, int], end: dict[str, int]) -> list[int]:
    return [i for part in reader.partitions(start, end) for batch in reader.read(part) for i in batch["id"].to_pylist()]


@pytest.fixture
def opened() -> Iterator[Callable[..., StreamReader]]:
    """`reader`, whose threads are stopped at the end."""
    readers: list[StreamReader] = []

    def make(dsn: str, **options: str) -> StreamReader:
        readers.append(reader(dsn, **options))
        return readers[-1]

    yield make
    for made in readers:
        made.stop()


# In this process


def test_a_batch_is_leased_then_settled_when_the_next_is_planned(
    dsn: str, database: Database, opened: Callable[..., StreamReader]
) -> None:
    send(database, 25)
    stream = opened(dsn, partitions="3")
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadMaxRows(10))
    read = ids(stream, start, end)

    assert (start, end, len(read)) == ({"batch": 0}, {"batch": 1}, 10)
    assert len(stream.partitions(start, end)) == 3
    assert one(database, "SELECT count(*) FROM pgqueue_message WHERE status = 2 AND id = ANY(%s)", read) == 10
    assert stream.latestOffset(end, ReadMaxRows(10)) == {"batch": 2}
    assert one(database, "SELECT count(*) FROM pgqueue_archived_message WHERE id = ANY(%s)", read) == 10
    assert stream.partitions(end, end) == []


def test_a_batch_is_the_same_after_a_crash(dsn: str, database: Database, opened: Callable[..., StreamReader]) -> None:
    send(database, 10)
    before = opened(dsn)
    end = before.latestOffset({"batch": 0}, ReadMaxRows(4))
    read = ids(before, {"batch": 0}, end)

    assert sorted(ids(opened(dsn), {"batch": 0}, end)) == sorted(read), "the offset was in the checkpoint"
    again = opened(dsn)
    assert again.initialOffset() == {"batch": 0}
    assert again.latestOffset({"batch": 0}, ReadMaxRows(9)) == end, "the offset was not yet in the checkpoint"
    assert sorted(ids(again, {"batch": 0}, end)) == sorted(read)


def test_a_message_whose_lease_is_lost_is_not_read_again(
    dsn: str, database: Database, opened: Callable[..., StreamReader], capsys: pytest.CaptureFixture[str]
) -> None:
    send(database, 3)
    before = opened(dsn)
    end = before.latestOffset({"batch": 0}, ReadMaxRows(3))
    lost = min(ids(before, {"batch": 0}, end))
    database.execute("UPDATE pgqueue_message SET lease_expires_at = now() WHERE id = %s", [lost])
    database.execute("SELECT pgqueue_sweep()")
    left = ids(opened(dsn), {"batch": 0}, end)

    assert len(left) == 2
    assert lost not in left
    assert "stream s lost the leases of 1 messages: they are delivered to another consumer" in capsys.readouterr().err


def test_a_query_whose_stream_was_taken_over_ends(
    dsn: str, database: Database, opened: Callable[..., StreamReader]
) -> None:
    old = opened(dsn)
    old.initialOffset()
    opened(dsn).initialOffset()
    with pytest.raises(PipelineError, match=r'^Another query has taken over stream "s"'):
        old.latestOffset({"batch": 0}, ReadMaxRows(1))


def test_a_limited_channel_gives_no_more_than_its_limit(
    dsn: str, database: Database, opened: Callable[..., StreamReader]
) -> None:
    database.execute("""SELECT pgqueue_channel_set('default', 'few', '{"max_concurrency": 4}')""")
    send(database, 10, "few")
    send(database, 10)
    stream = opened(dsn, channel="few")
    offsets, counts = [{"batch": 0}], []
    while not counts or counts[-1]:
        offsets.append(stream.latestOffset(offsets[-1], ReadMaxRows(100)))
        counts.append(len(ids(stream, *offsets[-2:])))

    assert counts == [4, 4, 2, 0]


def test_a_run_with_available_now_takes_what_was_there_when_it_began(
    dsn: str, database: Database, opened: Callable[..., StreamReader]
) -> None:
    send(database, 5)
    stream = opened(dsn)
    stream.prepareForTriggerAvailableNow()
    send(database, 20)
    end = stream.latestOffset({"batch": 0}, ReadMaxRows(3))
    assert len(ids(stream, {"batch": 0}, end)) == 3
    end = stream.latestOffset(end, ReadMaxRows(3))
    assert len(ids(stream, {"batch": 1}, end)) == 2
    assert stream.latestOffset(end, ReadMaxRows(3)) == end
    assert one(database, "SELECT count(*) FROM pgqueue_archived_message") == 5


def test_a_reader_travels_without_its_connection_and_threads(dsn: str, database: Database) -> None:
    import pickle

    stream = reader(dsn)
    stream.initialOffset()
    travelled = pickle.loads(pickle.dumps(stream))
    stream.stop()

    assert (travelled.claims, travelled.extender) == (None, None)
    assert travelled.options == stream.options


def test_leases_are_extended_three_times_in_their_time_until_the_end() -> None:
    beats = threading.Semaphore(0)
    extender = LeaseExtender(beats.release, 0.03)
    for _ in range(5):
        assert beats.acquire(timeout=280)
    extender.stop()
    assert not extender.thread.is_alive()


def test_leases_are_tried_again_while_the_server_is_away_and_given_up_when_the_stream_is_lost(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers: list[Exception | None] = [SourceLost("away"), SourceLost("away"), None, PipelineError("taken over")]

    def beat() -> None:
        if error := answers.pop(0):
            raise error

    extender = LeaseExtender(beat, 0.03)
    extender.thread.join(280)
    assert not extender.thread.is_alive()
    assert answers == []
    error_text = capsys.readouterr().err
    assert error_text.count("retrying: away") == 2
    assert "no longer extended: taken over" in error_text


def test_leases_are_extended_in_the_database(dsn: str, database: Database) -> None:
    send(database, 2)
    claims = Claims(StreamOptions.of({"source": dsn, "stream": "s", "lease": "1h"}))
    claims.claim(0, 10)
    database.execute("UPDATE pgqueue_message SET lease_expires_at = now() + interval '1 second'")
    assert claims.extend() == 2
    assert one(database, "SELECT min(lease_expires_at) > now() + interval '50 minutes' FROM pgqueue_message")


@cases(
    ("options", "error_text"),
    [
        ({}, "The option stream is missing"),
        ({"stream": "s", "lease": "5"}, "at least 10 seconds"),
        ({"stream": "s", "lease": "soon"}, "lease is wrong"),
        ({"stream": "s", "table": "archive"}, "Unknown option table"),
        ({"stream": "s", "batch_messages": "0"}, "whole number from 1 on"),
    ],
)
def test_wrong_options_are_reported(dsn: str, options: dict[str, str], error_text: str) -> None:
    with pytest.raises(PipelineError, match=error_text):
        StreamOptions.of({"source": dsn, **options})


# In Spark
