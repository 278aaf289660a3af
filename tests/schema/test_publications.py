"""Publications of all tables, as change data capture and upgrades by logical replication make them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import psycopg
import pytest

from django_pgqueue.embedded import temporary_cluster
from tests.schema.test_checks import of_database
from tests.support.databases import migrated
from tests.support.sessions import Session, one
from tests.support.sql import sql
from tests.support.tables import tables
from tests.support.verbs import (
    dequeue,
    drain,
    enqueue,
    enqueue_many,
    limit_set,
    make_channel,
    retry,
    set_queue,
    settle,
    tick,
)
from tests.support.waiting import eventually

SUBSCRIBER = "subscriber"
FIRST_COLUMN = "SELECT quote_ident(attname) FROM pg_attribute WHERE attrelid = %s::regclass AND attnum = 1"
SEQUENCES = "SELECT sequencename::text, last_value FROM pg_sequences WHERE sequencename LIKE 'pgqueue%%'"


@pytest.fixture(scope="module")
def replicated() -> Iterator[tuple[Session, Session]]:
    """A database with the queue that publishes all tables, and one that subscribes to them."""
    name = "publisher"
    with temporary_cluster(settings={"wal_level": "logical"}) as cluster:
        environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "testproject.settings"}
        with (
            migrated(name, cluster.url("postgres"), environment) as url,
            psycopg.connect(cluster.url("postgres"), autocommit=True) as session,
        ):
            session.execute(f"CREATE DATABASE {SUBSCRIBER} TEMPLATE {name}")
            with (
                psycopg.connect(url, autocommit=True) as publisher,
                psycopg.connect(cluster.url(SUBSCRIBER), autocommit=True) as subscriber,
            ):
                publisher.execute("CREATE PUBLICATION everything FOR ALL TABLES")
                publisher.execute("SELECT pg_create_logical_replication_slot('everything', 'pgoutput')")
                # A subscription in the same cluster would wait for itself if it made its slot.
                subscriber.execute(
                    f"CREATE SUBSCRIPTION everything CONNECTION '{url}' PUBLICATION everything"
                    " WITH (create_slot = false, copy_data = false)"
                )
                try:
                    yield publisher, subscriber
                finally:
                    subscriber.execute("ALTER SUBSCRIPTION everything DISABLE")
                    subscriber.execute("ALTER SUBSCRIPTION everything SET (slot_name = NONE)")
                    subscriber.execute("DROP SUBSCRIPTION everything")
                    free = "SELECT active_pid IS NULL FROM pg_replication_slots WHERE slot_name = 'everything'"
                    eventually(lambda: one(publisher, free))
                    publisher.execute("SELECT pg_drop_replication_slot('everything')")


def contents(session: Session) -> dict[str, list[str]]:
    return {
        name: [row[0] for row in session.execute(f"SELECT t::text FROM {name} AS t ORDER BY 1").fetchall()]
        for name in tables(session)
    }


def test_every_table_of_the_queue_may_be_changed_while_a_publication_has_it(
    replicated: tuple[Session, Session],
) -> None:
    publisher, _ = replicated
    for name in tables(publisher):
        column = one(publisher, FIRST_COLUMN, name)
        publisher.execute(f"UPDATE {name} SET {column} = {column}")
        publisher.execute(f"DELETE FROM {name} WHERE false")


def test_the_queue_is_served_while_all_tables_are_published_and_the_subscriber_has_its_rows(
    replicated: tuple[Session, Session],
) -> None:
    publisher, subscriber = replicated
    make_channel(publisher, "plain")
    make_channel(publisher, "slow", max_concurrency=1, max_size=100)
    make_channel(publisher, "paced", release_interval="1 microsecond", archive="none")
    set_queue(publisher, max_concurrency=50)
    limit_set(publisher, "stripe", max_concurrency=2)
    enqueue_many(publisher, ["plain", "slow", "paced"] * 5)
    keyed = [enqueue(publisher, "plain", order_key="k", limits=["stripe"]) for _ in range(6)]
    leases = dequeue(publisher, 4)
    assert leases
    retry(publisher, leases)
    tick(publisher, 3)
    done = drain(publisher)
    assert len(done) == 15 + 6
    assert [lease.id for lease in done if lease.id in keyed] == keyed
    publisher.execute("SELECT pgqueue_measure()")
    publisher.execute("SELECT pgqueue_prune()")
    rest = enqueue_many(publisher, ["plain", "slow"])
    taken = dequeue(publisher)
    assert settle(publisher, taken) == [taken[0].id]
    eventually(lambda: contents(publisher) == contents(subscriber), every=0.1, problem="the subscriber lags")

    # The other side takes over, as in an upgrade: replication leaves the sequences out.
    for name, last in publisher.execute(SEQUENCES).fetchall():
        if last is not None:
            subscriber.execute("SELECT setval(%s::regclass, %s)", (name, last))
    later = enqueue(subscriber, "plain")
    assert {lease.id for lease in drain(subscriber)} == {*rest, later} - {taken[0].id}


@pytest.mark.parametrize(
    ("table", "harm", "repair"),
    [
        ("pgqueue_lane", "ALTER TABLE pgqueue_lane REPLICA IDENTITY DEFAULT", "FULL"),
        ("pgqueue_message", "ALTER TABLE pgqueue_message REPLICA IDENTITY NOTHING", "DEFAULT"),
    ],
)
@pytest.mark.django_db
def test_a_published_table_that_lost_its_replica_identity_is_an_error(table: str, harm: str, repair: str) -> None:
    sql(harm)
    assert of_database() == {}
    sql("CREATE PUBLICATION everything FOR ALL TABLES")
    found = of_database()
    assert list(found) == ["pgqueue.E029"]
    assert f"publication everything of database 'default' has the table {table} " in found["pgqueue.E029"].msg
    statement = f"ALTER TABLE {table} REPLICA IDENTITY {repair}"
    assert statement in (found["pgqueue.E029"].hint or "")
    sql(statement)
    assert of_database() == {}


@pytest.mark.django_db
def test_a_publication_that_leaves_columns_of_the_identity_out_is_an_error() -> None:
    sql("CREATE PUBLICATION places FOR TABLE pgqueue_lane (seq, channel_id)")
    assert list(of_database()) == ["pgqueue.E029"]
    sql("ALTER PUBLICATION places SET (publish = 'insert')")
    assert of_database() == {}
