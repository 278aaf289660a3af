"""started_at: when the handler of a settled message started, from the seconds that the caller says it ran."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from django_pgqueue import complete, dead_letter, dequeue, queue_set, retry
from django_pgqueue.lifecycle.upkeep import measure
from django_pgqueue.models import Activity, ArchivedMessage, DeadLetter, Message
from tests.support.messages import lease_messages
from tests.support.moments import pass_time
from tests.support.sql import sql, value

pytestmark = pytest.mark.django_db

LEASED = timedelta(seconds=60)
RAN = timedelta(seconds=2.5)
# A worker's clock and the database's need not agree to the microsecond, and neither do float and interval.
EXACT = timedelta(microseconds=2)


def leased_for_a_minute(count: int = 1) -> list[Any]:
    deliveries = lease_messages(count)
    moved = "leased_at = leased_at - interval '1 minute', dequeue_at = dequeue_at - interval '1 hour'"
    sql(f"UPDATE pgqueue_message SET {moved}")
    return deliveries


def assert_ran(kept: Any, ended_at: datetime, ran: timedelta = RAN) -> None:
    assert kept.started_at is not None
    assert abs(ended_at - kept.started_at - ran) < EXACT
    assert ended_at - kept.leased_at >= LEASED


@pytest.mark.parametrize("count", [1, 2])
def test_a_completed_message_started_as_long_ago_as_it_ran(count: int) -> None:
    deliveries = leased_for_a_minute(count)
    complete(deliveries, ran_seconds=[RAN.total_seconds() + number for number in range(count)])
    for number, delivery in enumerate(deliveries):
        kept = ArchivedMessage.objects.get(pk=delivery.id)
        assert_ran(kept, kept.archived_at, RAN + timedelta(seconds=number))


def test_each_message_keeps_its_own_time_and_its_own_result() -> None:
    deliveries = leased_for_a_minute(3)
    complete(reversed(deliveries), results=[3, 2, 1], ran_seconds=[3, None, 1], cancelled=True)
    kept = list(ArchivedMessage.objects.order_by("id"))
    ran = [each.started_at and round((each.archived_at - each.started_at).total_seconds()) for each in kept]
    assert ran == [1, None, 3]
    assert [message.result for message in kept] == [1, 2, 3]


@pytest.mark.parametrize("count", [1, 2])
def test_a_start_is_unknown_without_the_time_that_it_ran(count: int) -> None:
    deliveries = leased_for_a_minute(2 * count)
    complete(deliveries[:count])
    complete(deliveries[count:], ran_seconds=[-1.0] * count)
    assert list(ArchivedMessage.objects.values_list("started_at", flat=True)) == [None] * 2 * count


@pytest.mark.parametrize("count", [1, 2])
def test_no_handler_starts_before_its_lease(count: int) -> None:
    complete(leased_for_a_minute(count), ran_seconds=[3600.0] * count)
    for kept in ArchivedMessage.objects.all():
        assert kept.started_at == kept.leased_at


def test_a_dead_letter_started_as_long_ago_as_it_ran() -> None:
    [delivery] = leased_for_a_minute()
    dead_letter(delivery, reason="no_such_order", ran_seconds=[RAN.total_seconds()])
    letter = DeadLetter.objects.get()
    assert_ran(letter, letter.dead_at)


def test_a_failed_attempt_names_its_start_and_so_does_its_dead_letter() -> None:
    [delivery] = leased_for_a_minute()
    sql("UPDATE pgqueue_message SET max_attempts = 2")
    retry(delivery, errors=[{"type": "ValueError"}], ran_seconds=[RAN.total_seconds()], delays=[timedelta()])
    [first] = Message.objects.get().errors
    pass_time(minutes=1)
    [again] = dequeue()
    retry(again, errors=[{"type": "ValueError"}])
    letter = DeadLetter.objects.get()
    [_, second] = letter.errors
    ran = datetime.fromisoformat(first["at"]) - datetime.fromisoformat(first["started_at"])
    assert abs(ran - RAN) < EXACT
    assert second["started_at"] is None
    assert letter.started_at is None


def test_the_figures_of_unarchived_messages_count_the_time_in_handlers() -> None:
    queue_set("default", archive="none")
    complete(leased_for_a_minute(), ran_seconds=[RAN.total_seconds()])
    [(wait, run)] = sql("SELECT waits[1], runs[1] FROM pgqueue_unarchived")
    assert run == pytest.approx(RAN.total_seconds(), abs=0.001)
    assert wait == pytest.approx(3600 - RAN.total_seconds(), abs=5)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("settle", [complete, partial(dead_letter, reason="no")])
@pytest.mark.parametrize(("ran_seconds", "shown"), [(0.01, 0.01), (None, 60.0)])
def test_the_dashboard_counts_from_the_start_of_the_handler_or_else_from_the_lease(
    settle: Callable[..., Any], ran_seconds: float | None, shown: float
) -> None:
    measure(timedelta(0))
    settle(leased_for_a_minute(), ran_seconds=[ran_seconds])
    measure(timedelta(0))
    row = Activity.objects.get(channel=None, minutes=1)
    percentile = "SELECT pgqueue_histogram_percentile(%s::bigint[], 0.5)"
    assert shown / 1.42 < value(percentile, row.runs) < shown * 1.42
    assert 3600 / 1.42 < value(percentile, row.waits) < 3600 * 1.42
