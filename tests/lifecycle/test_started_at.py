"""started_at: when the handler of a settled message started, from the seconds that the caller says it ran."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.db import DatabaseError, transaction

from django_pgqueue import complete, dead_letter, dequeue, queue_set, retry
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.lifecycle.messages import cancel
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


def test_the_last_failure_gives_its_start_to_the_right_dead_letter_and_the_right_archived_message() -> None:
    deliveries = leased_for_a_minute(4)
    sql("UPDATE pgqueue_message SET max_attempts = 1 WHERE id <> %s", deliveries[1].id)
    cancel(deliveries[3].id)
    retry(reversed(deliveries), errors=[{}] * 4, ran_seconds=[4, 3, 2, 1])
    first, third = DeadLetter.objects.order_by("id")
    assert_ran(first, first.dead_at, timedelta(seconds=1))
    assert_ran(third, third.dead_at, timedelta(seconds=3))
    cancelled = ArchivedMessage.objects.get()
    assert_ran(cancelled, cancelled.archived_at, timedelta(seconds=4))
    assert Message.objects.get().id == deliveries[1].id


def test_an_archive_of_outcomes_keeps_the_starts_of_failed_attempts() -> None:
    queue_set("default", archive="outcome")
    [delivery] = leased_for_a_minute()
    retry(delivery, errors=[{"type": "ValueError"}], ran_seconds=[RAN.total_seconds()], delays=[timedelta()])
    pass_time(minutes=1)
    complete(dequeue(), ran_seconds=[0.001])
    kept = ArchivedMessage.objects.get()
    assert kept.started_at is not None
    assert kept.errors[0]["started_at"] is not None


def test_the_figures_of_unarchived_messages_count_the_time_in_handlers() -> None:
    queue_set("default", archive="none")
    complete(leased_for_a_minute(), ran_seconds=[RAN.total_seconds()])
    [(wait, run)] = sql("SELECT waits[1], runs[1] FROM pgqueue_unarchived")
    assert run == pytest.approx(RAN.total_seconds(), abs=0.001)
    assert wait == pytest.approx(3600 - RAN.total_seconds(), abs=5)


@pytest.mark.parametrize("verb", [complete, dead_letter, retry])
def test_as_many_times_as_messages_are_expected(verb: Any) -> None:
    deliveries = lease_messages(2)
    more: dict[str, Any] = {complete: {}, dead_letter: {"reason": "no"}, retry: {"errors": [{}, {}]}}[verb]
    with pytest.raises(InvalidMessage, match="one number of seconds for each message"):
        verb(deliveries, ran_seconds=[1.0], **more)
    ids, tokens = [each.id for each in deliveries], [each.token for each in deliveries]
    arrays = {complete: "", dead_letter: ", '{a,b}'", retry: ", ARRAY['{}', '{}']::jsonb[]"}[verb]
    with pytest.raises(DatabaseError, match="p_ran_seconds"):
        sql(f"SELECT pgqueue_{verb.__name__}(%s, %s::uuid[]{arrays}, p_ran_seconds => '{{1}}')", ids, tokens)


@pytest.mark.parametrize("seconds", ["NaN", "Infinity", "1e300"])
def test_a_time_that_is_no_time_is_an_error_and_changes_nothing(seconds: str) -> None:
    [delivery] = lease_messages(1)
    with (
        transaction.atomic(),
        pytest.raises(InvalidMessage, match=r"a value cannot be stored: (interval|timestamp)"),
        transaction.atomic(),
    ):
        complete(delivery, ran_seconds=[float(seconds)])
    assert complete(delivery) == {delivery.id}


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
