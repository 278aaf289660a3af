"""Tests that commit: pytest-django's `transactional_db`, Django's flush."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.core.management.sql import emit_post_migrate_signal
from django.db import connection, transaction

from django_pgqueue import channel_set, complete, dequeue, enqueue, handler
from django_pgqueue.models import Channel
from django_pgqueue.testing import drain
from tests.support.tables import tables

# The tables that a flush leaves or fills again: the floors, the default channel, the declared schedules.
LEFT = {"floor", "channel", "schedule"}


def rows(*tables: str) -> dict[str, int]:
    with connection.cursor() as cursor:
        found = {}
        for table in tables:
            cursor.execute(f"SELECT count(*) FROM pgqueue_{table}")
            found[table] = cursor.fetchone()[0]
        return found


@pytest.mark.django_db(transaction=True)
def test_handlers_run_outside_of_a_transaction_and_atomic_ones_in_their_own(calls):
    @handler("t.plain")
    def plain(delivery):
        calls.append(connection.in_atomic_block)
        transaction.on_commit(lambda: calls.append("at once"))
        calls.append("after")

    @handler("t.atomic", atomic=True)
    def atomic(delivery):
        Group.objects.create(name=f"attempt {delivery.attempt}")
        raise ValueError("bad")

    enqueue("t.plain")
    enqueue("t.atomic")

    assert drain(raise_errors=False).counts == {"completed": 1, "retried": 1}
    assert calls == [False, "at once", "after"]
    assert not Group.objects.exists()


def test_flush_empties_what_django_does_not_manage(transactional_db):
    channel_set(channel="small", max_size=2, max_concurrency=1)
    for _ in range(2):
        enqueue("t.note", channel="small")
    complete(dequeue(limit=2))
    enqueue("t.note")
    with connection.cursor() as cursor:
        cursor.execute("SELECT pgqueue_ingest('job', 0, '{}', 0)")
    left = rows("archived_message", "lane", "arrival", "channel_size", "departure", "ingest")
    assert all(left.values()), left

    call_command("flush", interactive=False, verbosity=0)

    emptied = {name.removeprefix("pgqueue_") for name in tables(connection.connection)} - LEFT
    assert {"archived_message", "lane", "ingest"} <= emptied
    assert rows(*emptied) == dict.fromkeys(emptied, 0)
    assert rows("floor") != {"floor": 0}
    assert [channel.name for channel in Channel.objects.all()] == ["default"]
    enqueue("t.note")
    assert len(dequeue()) == 1


@pytest.mark.django_db
def test_nothing_is_emptied_by_a_signal_while_there_are_channels():
    enqueue("t.note")
    complete(dequeue())

    emit_post_migrate_signal(verbosity=0, interactive=False, db="default")

    assert rows("archived_message") == {"archived_message": 1}


@pytest.mark.django_db
def test_migrate_makes_the_partitions_of_a_database_that_was_kept_for_weeks():
    with connection.cursor() as cursor:
        cursor.execute(
            "DO $$ DECLARE v_name regclass; BEGIN FOR v_name IN SELECT inhrelid::regclass FROM pg_inherits"
            " WHERE inhparent = 'pgqueue_archived_message'::regclass LOOP EXECUTE format('DROP TABLE %s', v_name);"
            " END LOOP; END $$"
        )

    call_command("migrate", verbosity=0)

    enqueue("t.note")
    complete(dequeue())
