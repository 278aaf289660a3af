"""The verbs on a database whose owner has other defaults: they change how values are read and written."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, connection, transaction

from django_pgqueue import (
    Exponential,
    NewMessage,
    channel_set,
    complete,
    dead_letter,
    defer,
    dequeue,
    enqueue,
    enqueue_many,
    explain_channel,
    explain_message,
    heartbeat,
    metrics,
    peek,
    pop,
    queue_set,
    redrive,
    retry,
)  # fmt: skip
from django_pgqueue.exceptions import PartitionMissing
from django_pgqueue.lifecycle.dequeue import next_due
from django_pgqueue.lifecycle.figures import health, held_channels, limit_health
from django_pgqueue.lifecycle.upkeep import tick
from django_pgqueue.models import ArchivedMessage, Channel, DeadLetter, Message, Queue
from tests.lifecycle.conftest import partition_of
from tests.support.hostile import GERMAN, HOSTILE
from tests.support.moments import pass_time
from tests.support.sql import sql, value

LATER = datetime(2100, 2, 3, 4, 5, 6, 7, tzinfo=UTC)
POLICY = Exponential(timedelta(days=1, seconds=2, microseconds=3), 3, timedelta(days=400))


def set_all(settings: dict[str, str]) -> None:
    for name, setting in settings.items():
        sql("SELECT set_config(%s, %s, true)", name, setting)


@pytest.fixture(params=["iso_8601", "sql_standard", "postgres_verbose"])
def hostile(request: pytest.FixtureRequest, db: None) -> None:
    """The defaults of tests/support/hostile.py, in the transaction of the test. Django sets the time zone itself."""
    # They are read when a session begins to use PL/pgSQL.
    value("SELECT count(*) FROM pgqueue_dequeue('default')")
    chosen = {name: HOSTILE[name] for name in HOSTILE if name not in ("lc_messages", "timezone")}
    set_all(chosen | {"intervalstyle": request.param})


@pytest.mark.usefixtures("hostile")
def test_many_messages_arrive_as_they_were_sent() -> None:
    fields: list[dict[str, Any]] = [
        {}, {"dedupe_key": "NULL", "order_key": "NULL"}, {"dedupe_key": "a\x1fb,c", "body": b"\x00\xff\\'"},
        {"headers": {"n": None}, "cost": 3, "backoff": POLICY}, {"delay": timedelta(days=-1, seconds=5)},
        {"dequeue_at": LATER}, {"body": b""}, {"dedupe_key": ""},
    ]  # fmt: skip
    enqueued = enqueue_many(
        [NewMessage(handler="h", payload={"n": number}, **each) for number, each in enumerate(fields)]
    )
    assert [each.outcome for each in enqueued] == ["created"] * 8
    rows = Message.objects.in_bulk([each.id for each in enqueued])
    for number, (answer, given) in enumerate(zip(enqueued, fields, strict=True)):
        row = rows[answer.id]
        assert row.payload == {"n": number}
        for name in ("dedupe_key", "order_key", "headers", "cost"):
            assert getattr(row, name) == given.get(name), name
        assert (None if row.body is None else bytes(row.body)) == given.get("body")
        policy = given.get("backoff")
        assert (row.backoff, row.backoff_longest) == ((policy.base, policy.longest) if policy else (None, None))
    assert rows[enqueued[5].id].dequeue_at == LATER
    before = rows[enqueued[0].id].created_at - rows[enqueued[4].id].dequeue_at
    assert abs(before - timedelta(days=1, seconds=-5)) < timedelta(seconds=1)


@pytest.mark.usefixtures("hostile")
def test_every_outcome_is_written() -> None:
    for number in range(3):  # the third call runs the prepared statement
        enqueue("single", body=b"\x00\xff\\'", delay=timedelta(0), backoff=POLICY, dedupe_key=str(number))
    assert [delivery.body for delivery in dequeue(limit=3)] == [b"\x00\xff\\'"] * 3
    enqueue_many([NewMessage(handler="h", backoff=timedelta(seconds=1)) for _ in range(8)])
    first, second, third, fourth, fifth, sixth, seventh, eighth = dequeue(limit=8, lease=timedelta(minutes=2))
    assert first.lease_expires_at > first.created_at
    assert set(heartbeat([first, second], lease=timedelta(minutes=5))) == {first.id, second.id}
    assert complete([first, second], results=[None, {"x": None}], ran_seconds=[None, 0.5]) == {first.id, second.id}
    pauses = [timedelta(days=1, hours=2), None]
    retry([third, fourth], errors=[{}, {}], delays=pauses, states=[{"s": 1}, None], ran_seconds=[None, None])
    assert defer([fifth, sixth], delay=timedelta(hours=3), state=None)[fifth.id] == "deferred"
    dead_letter([seventh, eighth], reason="bad", details=None, ran_seconds=[0.5, None])
    assert list(ArchivedMessage.objects.order_by("id").values_list("result", flat=True)) == [None, {"x": None}]
    waits = Message.objects.get(id=third.id).dequeue_at - value("SELECT clock_timestamp()")
    assert timedelta(days=1, hours=1) < waits < timedelta(days=1, hours=3)
    letters = [seventh.id, eighth.id]
    assert DeadLetter.objects.get(id=letters[0]).backoff == timedelta(seconds=1)
    lives = redrive(letters, payloads=[{"new": None}, {"n": 2}], times=[None, LATER])
    assert Message.objects.get(id=lives[letters[1]]).dequeue_at == LATER
    assert pop()[0].payload == {"new": None}


@pytest.mark.usefixtures("hostile")
def test_every_report_can_be_read() -> None:
    channel_set(channel="default", ordered=True)
    channel_set(channel="slow", release_interval=timedelta(minutes=90))
    queue_set("default", retention=timedelta(days=20, hours=1))
    sent = enqueue("h", backoff=timedelta(hours=1))
    enqueue("h")
    retry(dequeue(), errors=[{}])
    pass_time(seconds=1)
    tick()
    for _ in range(2):
        enqueue("h", channel="slow")
    dequeue(limit=5)
    [measured] = metrics("default", channel="default")
    assert measured.oldest_age is not None
    assert measured.oldest_age >= timedelta(0)
    assert health("default")[0].oldest_age is not None
    assert held_channels()[0].age > timedelta(0)
    assert limit_health() is not None
    assert next_due(["default"]) is not None
    assert peek()
    assert any("01:30:00" in reason.sentence for reason in explain_channel(channel="slow"))
    assert explain_message(sent.id)
    assert Channel.objects.get(name="slow").release_interval == timedelta(minutes=90)
    assert Queue.objects.get(name="default").retention == timedelta(days=20, hours=1)


# Other programs may have times in another style, which Django does not read.


@pytest.fixture
def foreign(pg_url: str, transactional_db: None) -> Iterator[psycopg.Connection[Any]]:
    """A session in India that writes days first, and the abbreviation of its zone, which means Israel elsewhere."""
    with psycopg.connect(pg_url, options="-c datestyle=SQL,DMY -c timezone=Asia/Kolkata") as session:
        yield session
        session.rollback()


def test_the_days_of_partitions_begin_in_utc_in_any_style_of_times(foreign: psycopg.Connection[Any]) -> None:
    assert foreign.execute("SELECT pgqueue_make_partitions(9)").fetchone() == (2,)
    foreign.execute("SET LOCAL datestyle = ISO")
    foreign.execute("SET LOCAL timezone = UTC")
    bounds = foreign.execute(
        "SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits AS i JOIN pg_class AS c"
        " ON c.oid = i.inhrelid WHERE i.inhparent = 'pgqueue_archived_message'::regclass"
    ).fetchall()
    for name, bound in bounds:
        day = f"{name[-8:-4]}-{name[-4:-2]}-{name[-2:]}"
        assert bound.startswith(f"FOR VALUES FROM ('{day} 00:00:00+00')"), bound


@pytest.mark.django_db
def test_sessions_of_django_read_times_on_a_database_with_another_style() -> None:
    other = connection.copy()
    other.settings_dict["OPTIONS"] = {**other.settings_dict["OPTIONS"], "options": "-c datestyle=German"}
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT clock_timestamp(), clock_timestamp()::text")
            moment, text = cursor.fetchone()
    finally:
        other.close()
    assert moment.year == datetime.fromisoformat(text).year


# Errors are recognised in any language. Where the server has no German, these tests take its own language.


@pytest.fixture
def german(db: None) -> None:
    try:
        with transaction.atomic():
            sql("SELECT set_config('lc_messages', %s, true)", GERMAN)
    except DatabaseError:
        return


@pytest.mark.usefixtures("german")
def test_a_missing_partition_is_recognised_in_another_language() -> None:
    enqueue("h")
    [delivery] = dequeue()
    sql(f"DROP TABLE {partition_of(0)}")
    with pytest.raises(PartitionMissing, match="no partition"), transaction.atomic():
        complete(delivery)


@pytest.mark.usefixtures("german")
@pytest.mark.parametrize(
    ("change", "missing"),
    [
        ("ALTER FUNCTION pgqueue_validate RENAME TO gone", "the function pgqueue_validate"),
        ("ALTER TABLE pgqueue_limit_handler RENAME TO gone", "the table pgqueue_limit_handler"),
    ],
)
def test_a_missing_function_or_table_is_named_in_another_language(change: str, missing: str) -> None:
    sql(change)
    with pytest.raises(DatabaseError, match=f"{missing} of this release: run manage.py migrate"), transaction.atomic():
        complete([enqueue("h"), *dequeue()][1:])
