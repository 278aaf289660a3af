"""measure: what was settled counts once, whenever it is committed; what is there is counted."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from django_pgqueue import cancel, channel_purge, channel_set, complete, dead_letter, dequeue, enqueue, pop, retry
from django_pgqueue.lifecycle.upkeep import MeasureCounts, measure
from django_pgqueue.models import Activity, Backlog
from tests.support.sessions import Connect
from tests.support.sql import sql, value

pytestmark = pytest.mark.django_db(transaction=True)

AT_ONCE = timedelta(0)
FIGURES = ("completed", "cancelled", "dead", "retries")


@pytest.fixture(autouse=True)
def _begun(_default_channel: None) -> None:
    """Settlements of other tests count no more."""
    sql("TRUNCATE pgqueue_measurement")
    measure(AT_ONCE)


def settle_some(count: int = 1, *, channel: str = "default", queue: str = "default") -> None:
    for _ in range(count):
        enqueue("h", channel=channel, queue=queue)
    while count:
        taken = dequeue(queue, limit=count)
        complete(taken)
        count -= len(taken)


def sums(**chosen: Any) -> dict[str, int]:
    """The figures of some rows together, of channels and whole queues unless a handler is asked for."""
    rows = Activity.objects.filter(**{"handler": None, **chosen}).values_list(*FIGURES)
    return {name: sum(column) for name, column in zip(FIGURES, zip(*rows, strict=True), strict=False) if sum(column)}


def backlog(channel: str | None = None, queue: str = "default") -> tuple[int, ...] | None:
    return (
        Backlog.objects.filter(queue=queue, channel=channel).values_list("ready", "leased", "scheduled", "dead").first()
    )


def test_a_settled_message_counts_once_for_its_queue_and_its_channel() -> None:
    channel_set(channel="acme")
    settle_some(3)
    settle_some(2, channel="acme")
    assert measure(AT_ONCE) == MeasureCounts(settled=5, dead=0, counted=True)
    settle_some(1)
    assert measure(AT_ONCE).settled == 1
    assert measure(AT_ONCE).settled == 0
    for minutes in (1, 10):
        assert sums(channel=None, minutes=minutes) == {"completed": 6}
    for minutes in (10, 60):
        assert sums(channel="default", minutes=minutes) == {"completed": 4}
        assert sums(channel="acme", minutes=minutes) == {"completed": 2}
    assert {row.minutes for row in Activity.objects.filter(channel="acme")} == {10, 60}


def test_each_outcome_has_its_figure() -> None:
    settle_some(1)
    enqueue("h")
    pop("default", 1)
    for _ in range(2):
        cancel([enqueue("h").id])
    enqueue("h")
    channel_purge(channel="default")
    enqueue("h", max_attempts=2)
    retry(dequeue(), errors=[{"type": "E"}], delays=[AT_ONCE])
    sql("SELECT pgqueue_tick()")
    dead_letter(dequeue(), reason="refused")
    counts = measure(AT_ONCE)
    assert (counts.settled, counts.dead) == (6, 1)
    assert sums(channel=None, minutes=10) == {"completed": 2, "cancelled": 3, "dead": 1, "retries": 1}


@pytest.mark.usefixtures("_yesterday")
def test_a_settlement_that_is_committed_late_counts_then(connect: Connect) -> None:
    """While it is open, others come and go, and are measured more than once."""
    enqueue("h")
    with connect() as session:
        session.execute("SELECT * FROM pgqueue_pop('default', 1)")
        settle_some(2)
        assert measure(AT_ONCE).settled == 2
        settle_some(1)
        assert measure(AT_ONCE).settled == 1
        # It looks as old as it would be: as if both had happened half an hour ago.
        session.execute(
            "UPDATE pgqueue_archived_message SET archived_at = archived_at - interval '0.5 hour'"
            " WHERE outcome = 'popped'"
        )
        sql(
            "UPDATE pgqueue_measurement SET measured_at = measured_at - interval '31 minutes'"
            " WHERE id = (SELECT min(id) FROM pgqueue_measurement)"
        )
        session.commit()
    assert measure(AT_ONCE).settled == 1
    assert measure(AT_ONCE).settled == 0


def test_a_database_that_was_restored_from_another_server_begins_anew() -> None:
    sql("UPDATE pgqueue_measurement SET snapshot = '4000000000:4000000000:'")
    settle_some(1)
    assert measure(AT_ONCE).settled == 0
    settle_some(1)
    assert measure(AT_ONCE).settled == 1


def test_one_measures_at_a_time(connect: Connect) -> None:
    settle_some(1)
    with connect() as session:
        assert session.execute("SELECT settled FROM pgqueue_measure('0')").fetchone() == (1,)
        assert measure(AT_ONCE) == MeasureCounts(settled=0, dead=0, counted=False)
        session.rollback()
    assert measure(AT_ONCE).settled == 1


def test_a_call_that_comes_too_early_does_nothing(settings: Any) -> None:
    settle_some(1)
    assert measure() == MeasureCounts(settled=0, dead=0, counted=False)
    settings.DJANGO_PGQUEUE = {"MEASURE_INTERVAL": AT_ONCE}
    assert measure().settled == 1


def test_the_backlog_is_counted_by_state() -> None:
    channel_set(channel="acme")
    channel_set(channel="acme", queue="mail")
    for _ in range(5):
        enqueue("h", channel="acme")
    enqueue("h", channel="acme", delay=timedelta(hours=1))
    enqueue("h", channel="acme", queue="mail")
    dead_letter(dequeue(limit=1), reason="refused")
    dequeue(limit=2)
    measure(AT_ONCE)
    assert backlog("acme") == (2, 2, 1, 1)
    assert backlog() == (2, 2, 1, 1)
    assert backlog("acme", "mail") == backlog(queue="mail") == (1, 0, 0, 0)
    assert backlog("default") is None
    oldest = value(
        "SELECT min(dequeue_at) FROM pgqueue_message WHERE status = 1 AND id < (SELECT max(id) FROM pgqueue_message)"
    )
    assert Backlog.objects.get(queue="default", channel="acme").oldest_at == oldest


def test_a_count_that_took_long_is_not_repeated_soon(settings: Any) -> None:
    settings.DJANGO_PGQUEUE = {"MEASURE_INTERVAL": timedelta(microseconds=1)}
    sql("UPDATE pgqueue_measurement SET counted_in = '1 minute', counted_at = counted_at - interval '19 minutes'")
    assert not measure().counted
    sql("UPDATE pgqueue_measurement SET counted_at = counted_at - interval '2 minutes'")
    assert measure().counted
    assert value("SELECT counted_in FROM pgqueue_measurement ORDER BY id DESC LIMIT 1") < timedelta(seconds=30)


def test_figures_that_are_not_shown_any_more_are_deleted() -> None:
    settle_some(1)
    measure(AT_ONCE)
    sql("UPDATE pgqueue_activity SET bucket_at = bucket_at - interval '3 hours'")
    sql("UPDATE pgqueue_measurement SET measured_at = measured_at - interval '3 hours'")
    measure(AT_ONCE)
    kept = {(row.channel, row.handler, row.minutes) for row in Activity.objects.all()}
    assert kept == {(None, None, 10), ("default", None, 60), (None, "h", 10), (None, "h", 0)}
    assert value("SELECT count(*) FROM pgqueue_measurement") == 1
    sql("UPDATE pgqueue_activity SET bucket_at = bucket_at - interval '24 hours'")
    sql("UPDATE pgqueue_measurement SET measured_at = measured_at - interval '20 minutes'")
    measure(AT_ONCE)
    # What a handler has settled in all is a counter of the metrics.
    assert [(row.handler, row.minutes) for row in Activity.objects.all()] == [("h", 0)]


def test_handlers_count_in_all_with_their_failures_by_type() -> None:
    settle_some(2)
    for _ in range(3):
        enqueue("crm.push")
    first, second, third = dequeue(limit=3)
    errors = [{"type": "ConnectionError"}, {"type": "ConnectionError"}, {"message": "without a type"}]
    retry([first, second, third], errors=errors, delays=[AT_ONCE] * 3)
    retry(dequeue(limit=1), errors=[{"type": "Stopped"}], delays=[AT_ONCE], max_interruptions=9)
    first, second, third = dequeue(limit=3)
    complete(first)
    dead_letter(second, reason="refused", details={"type": "ValueError"})
    measure(AT_ONCE)
    dead_letter(third, reason="refused")
    measure(AT_ONCE)
    assert sums(handler="h", minutes=0) == {"completed": 2}
    assert sums(handler="crm.push", minutes=0) == {"completed": 1, "dead": 2, "retries": 3}
    assert sums(handler="crm.push", minutes=10) == {"completed": 1, "dead": 2, "retries": 3}
    row = Activity.objects.get(handler="crm.push", minutes=0)
    failures = {"ConnectionError": 2, "other": 1, "ValueError": 1, "rejected": 1, "interrupted": 1}
    assert row.errors == failures
    assert sum(row.waits) == sum(row.runs) == 3


def test_messages_without_an_archive_count_for_their_handler() -> None:
    channel_set(channel="default", archive="none")
    settle_some(2)
    measure(AT_ONCE)
    assert sums(handler="h", minutes=0) == {"completed": 2}


def test_percentiles_are_exact_within_a_position_of_the_histogram() -> None:
    dice = random.Random(7)
    for spread in (0.3, 1.0, 3.0):
        seconds = sorted(dice.lognormvariate(0, spread) for _ in range(5000))
        for share in (0.05, 0.5, 0.95, 0.99):
            exact = seconds[int(share * len(seconds))]
            computed = value("SELECT pgqueue_histogram_percentile(pgqueue_histogram(%s), %s)", seconds, share)
            assert exact / 1.42 < computed < exact * 1.42


def test_a_histogram_that_would_overflow_begins_anew() -> None:
    full = [2_147_483_646, 5]
    assert value("SELECT pgqueue_histogram_add(%s::integer[], ARRAY[1])", full) == [2_147_483_647, 5]
    assert value("SELECT pgqueue_histogram_add(%s::integer[], ARRAY[2])", full) == [2], "it begins anew"


def test_the_times_of_a_message_are_those_of_its_last_delivery() -> None:
    enqueue("h")
    taken = dequeue()
    sql(
        "UPDATE pgqueue_message SET dequeue_at = dequeue_at - interval '100 seconds', "
        "leased_at = leased_at - interval '10 seconds'"
    )
    complete(taken)
    measure(AT_ONCE)
    row = Activity.objects.get(channel="default", minutes=60)
    percentile = "SELECT pgqueue_histogram_percentile(%s::bigint[], 0.5)"
    assert 90 / 1.42 < value(percentile, row.waits) < 90 * 1.42
    assert 10 / 1.42 < value(percentile, row.runs) < 10 * 1.42


@pytest.mark.auto_explain
def test_new_rows_are_found_without_reading_the_old_ones(
    connect: Connect, record_plans: Callable[..., list[dict[str, Any]]]
) -> None:
    sql(
        """
        INSERT INTO pgqueue_archived_message (
            id, queue, channel, handler, payload, priority, attempts, max_attempts, created_at, dequeue_at, archived_at,
            outcome)
        SELECT -n, 'default', 'default', 'h', '{}', 0, 1, 5, g.at, g.at, g.at, 'completed'
        FROM generate_series(1, 40000) AS n,
            LATERAL (SELECT date_trunc('day', clock_timestamp(), 'UTC') + n * interval '1 microsecond') AS g (at)"""
    )
    # As autovacuum does after so many rows. Other tests delete rows, and may leave statistics of a file that has none.
    sql("ANALYZE pgqueue_archived_message")
    measure(AT_ONCE)
    settle_some(1)
    # The rows above are of the first moment of the day; also shortly after midnight they shall be old.
    sql(
        "UPDATE pgqueue_measurement"
        " SET measured_at = greatest(measured_at, date_trunc('day', clock_timestamp(), 'UTC') + interval '11 seconds')"
    )
    session = connect(autocommit=True)
    plans = record_plans(session)
    session.execute("SET auto_explain.log_buffers = on")
    assert session.execute("SELECT settled FROM pgqueue_measure('0')").fetchone() == (1,)
    [plan] = [plan for plan in plans if "fresh AS MATERIALIZED" in plan["Query Text"]]
    read = plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"]
    size = value("SELECT pg_relation_size(tableoid) / 8192 FROM pgqueue_archived_message LIMIT 1")
    assert "archived_at_idx" in str(plan)
    assert read < size / 3, (read, size)
