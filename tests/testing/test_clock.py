"""freeze_clock, in the transaction of a TestCase."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core import mail
from django.db import DataError, connection, transaction
from django.db.models.functions import Now
from django.utils import timezone

from django_pgqueue import Constant, Defer, channel_set, dequeue, enqueue, handler, heartbeat, schedule, sweep
from django_pgqueue import schedules as declared
from django_pgqueue.models import ArchivedMessage, Channel, Message
from django_pgqueue.testing import drain, fire_schedules, freeze_clock

NEW_YEAR = datetime(2030, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
# The objects that the clock changes: each function, each default, and all others.
CHANGEABLE = """
SELECT jsonb_build_object(
    'functions', (SELECT jsonb_object_agg(p.oid::regprocedure::text, p.proconfig) FROM pg_proc AS p
        WHERE p.proname LIKE 'pgqueue%'),
    'defaults', (SELECT jsonb_object_agg(d.adrelid::regclass || '.' || d.adnum, pg_get_expr(d.adbin, d.adrelid))
        FROM pg_attrdef AS d JOIN pg_class AS c ON c.oid = d.adrelid
        WHERE c.relname LIKE 'pgqueue%' AND NOT c.relispartition),
    'schemas', (SELECT jsonb_agg(n.nspname ORDER BY n.nspname) FROM pg_namespace AS n WHERE n.nspname !~ '^pg_t'),
    'path', current_setting('search_path'))
"""


def ask(sql: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0]


@pytest.mark.django_db
def test_both_clocks_stand_still_and_are_moved_together():
    with freeze_clock(NEW_YEAR) as clock:
        assert ask("SELECT clock_timestamp()") == timezone.now() == clock.now == NEW_YEAR
        assert clock.tick(2 * MINUTE) == ask("SELECT statement_timestamp()") == NEW_YEAR + 2 * MINUTE
        clock.move_to(NEW_YEAR - MINUTE)
        assert timezone.now() == NEW_YEAR - MINUTE
        assert ask("SELECT clock_timestamp()") == ask("SELECT now()") == NEW_YEAR - MINUTE
        assert Channel.objects.annotate(at=Now()).first().at == NEW_YEAR - MINUTE

    assert timezone.now().year < 2030
    assert ask("SELECT clock_timestamp()").year < 2030


@pytest.mark.django_db
def test_the_queue_goes_by_it(calls):
    handler("t.note")(lambda delivery: calls.append(delivery.payload))
    with freeze_clock(NEW_YEAR) as clock:
        enqueue("t.note", "later", delay=10 * MINUTE)
        Message.objects.create(channel=Channel.objects.get(name="default"), handler="t.note", payload="by the ORM")
        assert set(Message.objects.values_list("created_at", flat=True)) == {NEW_YEAR}

        drain()
        clock.tick(10 * MINUTE - timedelta(microseconds=1))
        drain()
        assert calls == ["by the ORM"]
        clock.tick(timedelta(microseconds=1))
        drain()

        assert calls == ["by the ORM", "later"]
        assert list(ArchivedMessage.objects.order_by("archived_at").values_list("archived_at", flat=True)) == [
            NEW_YEAR,
            NEW_YEAR + 10 * MINUTE,
        ]


@pytest.mark.django_db
def test_a_lease_expires_when_its_time_has_come():
    enqueue("t.note")
    with freeze_clock() as clock:
        [delivery] = dequeue(lease=MINUTE)
        assert delivery.lease_expires_at == clock.now + MINUTE
        clock.tick(MINUTE / 2)
        heartbeat([delivery], lease=MINUTE)
        clock.tick(MINUTE / 2)
        assert sweep().retried == 0
        clock.tick(MINUTE / 2)

        assert sweep().retried == 1


@pytest.mark.django_db
def test_retries_deferrals_and_rates_go_by_it(calls):
    channel_set(channel="slow", release_interval=MINUTE)

    @handler("t.retry", backoff=Constant(5 * MINUTE))
    def retry(delivery):
        calls.append(("retry", delivery.attempt))
        raise ValueError("not yet")

    @handler("t.defer")
    def put_off(delivery):
        calls.append(("defer", delivery.state))
        return Defer(delay=MINUTE, state=(delivery.state or 0) + 1)

    with freeze_clock(NEW_YEAR) as clock:
        enqueue("t.retry")
        enqueue("t.defer", channel="slow")
        seen = []
        for _ in range(6):
            drain(raise_errors=False)
            seen.append(len(calls))
            clock.tick(MINUTE)

    assert calls[:2] == [("retry", 1), ("defer", None)] or calls[:2] == [("defer", None), ("retry", 1)]
    assert seen == [2, 3, 4, 5, 6, 8]


@pytest.mark.django_db
def test_schedules_fire_by_it(calls, monkeypatch):
    monkeypatch.setattr(declared, "_declared", [])

    @schedule("0 6 * * *", time_zone="UTC")
    @handler("t.morning")
    def morning(delivery):
        calls.append(timezone.now())

    with freeze_clock(NEW_YEAR) as clock:
        for _ in range(2):
            fire_schedules()
            drain()
        assert calls == []
        clock.move_to(NEW_YEAR.replace(hour=6))
        for _ in range(2):
            fire_schedules()
            drain()

    assert calls == [NEW_YEAR.replace(hour=6)]


@pytest.mark.django_db
@pytest.mark.parametrize("ends", ["with an error", "with a failed transaction"])
def test_nothing_of_it_stays_when_the_transaction_is_rolled_back(ends):
    before = ask(CHANGEABLE)
    try:
        with transaction.atomic(), freeze_clock(NEW_YEAR):
            assert ask(CHANGEABLE) != before
            ask("SELECT 1 / 0" if ends == "with a failed transaction" else "SELECT 1")
            raise ValueError
    except (ValueError, DataError):
        pass

    assert ask(CHANGEABLE) == before
    with freeze_clock(NEW_YEAR):
        assert ask("SELECT clock_timestamp()") == NEW_YEAR


@pytest.mark.django_db
def test_outside_of_tests_it_is_refused(monkeypatch):
    monkeypatch.delattr(mail, "outbox")

    with pytest.raises(RuntimeError, match="for tests"), freeze_clock():
        pass


@pytest.mark.django_db(transaction=True)
def test_where_tests_commit_it_is_refused():
    before = ask(CHANGEABLE)

    with pytest.raises(RuntimeError, match=r"drain\(with_scheduled=True\)"), freeze_clock():
        pass

    assert ask(CHANGEABLE) == before


def test_the_fixture_freezes_it_for_the_test(pgqueue_clock, pgqueue_drain, pgqueue_enqueued, calls):
    handler("t.note")(lambda delivery: calls.append(timezone.now()))
    start = pgqueue_clock.now
    enqueue("t.note", delay=MINUTE)
    assert [message.dequeue_at for message in pgqueue_enqueued()] == [start + MINUTE]

    pgqueue_clock.tick(MINUTE)

    assert len(pgqueue_drain()) == 1
    assert calls == [start + MINUTE]
