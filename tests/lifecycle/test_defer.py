from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from django_pgqueue import cancel, channel_set, complete, defer, dequeue, enqueue
from django_pgqueue.lifecycle.settle import give_back
from django_pgqueue.models import DeadLetter, Message
from tests.support.cases import cases
from tests.support.messages import lease_messages, live
from tests.support.moments import pass_time
from tests.support.refusals import refused
from tests.support.sql import sql, value

pytestmark = pytest.mark.django_db


def test_a_deferred_message_comes_back_after_its_delay():
    [delivery] = lease_messages()
    assert defer(delivery, delay=timedelta(minutes=10)) == {delivery.id: "deferred"}
    assert live(delivery.id, "status") == Message.Status.SCHEDULED
    assert dequeue() == []
    pass_time(minutes=9)
    assert dequeue() == []
    pass_time(minutes=1)
    assert [again.id for again in dequeue()] == [delivery.id]


def test_a_deferred_message_comes_back_at_its_moment():
    [delivery] = lease_messages()
    moment = timezone.now() + timedelta(days=1)
    defer(delivery, until=moment)
    assert live(delivery.id, "dequeue_at", "status") == (moment, Message.Status.SCHEDULED)


@pytest.mark.parametrize(
    "when", [{}, {"delay": timedelta(0)}, {"delay": timedelta(-1)}, {"until": datetime(1999, 1, 1, tzinfo=UTC)}]
)
def test_without_a_moment_to_come_it_is_ready_at_once(when: dict[str, object]):
    [delivery] = lease_messages()
    before = live(delivery.id, "dequeue_at")
    defer(delivery, **when)
    assert live(delivery.id, "status") == Message.Status.READY
    assert live(delivery.id, "dequeue_at") >= before
    assert [again.id for again in dequeue()] == [delivery.id]


def test_a_deferred_message_goes_behind_those_that_waited():
    first, *_ = lease_messages(1)
    enqueue("h", "waiting")
    defer(first)
    assert [delivery.payload for _ in range(2) for delivery in dequeue()] == ["waiting", 0]


def test_a_deferral_gives_its_attempt_back():
    sent = enqueue("h", max_attempts=2)
    for _ in range(5):
        [delivery] = dequeue()
        assert delivery.attempt == 1
        defer(delivery)
    assert live(sent.id, "attempts", "errors") == (0, None)


def test_state_is_saved_for_the_next_delivery():
    [delivery] = lease_messages()
    assert delivery.state is None
    defer(delivery, state={"page": 2})
    [delivery] = dequeue()
    assert delivery.state == {"page": 2}
    defer(delivery)
    [delivery] = dequeue()
    assert delivery.state == {"page": 2}, "a deferral without a state keeps the one that is there"
    defer(delivery, state=None)
    [delivery] = dequeue()
    assert delivery.state is None


@cases("state", [[], {}, 0, False, ""])
def test_an_empty_state_is_a_state(state: object):
    [delivery] = lease_messages()
    defer(delivery, state=state)
    [delivery] = dequeue()
    assert delivery.state == state
    assert delivery.state is not None


@pytest.mark.django_db(transaction=True)
def test_a_delay_counts_from_the_clock_and_not_from_the_start_of_the_transaction():
    [delivery] = lease_messages()
    with transaction.atomic():
        value("SELECT now() FROM pg_sleep(0.05)")
        defer(delivery, delay=timedelta(milliseconds=20))
        assert live(delivery.id, "dequeue_at > now() + interval '60 milliseconds'")


def test_a_message_that_is_given_back_has_its_old_place():
    """A worker that stops must not change the order of a channel."""
    first, second, third = lease_messages(3)
    waiting = enqueue("h")
    assert give_back([third, first]) == {first.id, third.id}
    assert live(first.id, "attempts", "dequeue_at") == (0, first.dequeue_at)
    assert [delivery.id for delivery in dequeue(limit=9)] == [first.id, third.id, waiting.id]
    assert complete(second) == {second.id}


def test_a_deferred_message_still_takes_room_on_its_channel():
    channel_set(channel="default", max_size=1, full_policy="drop")
    [delivery] = lease_messages()
    defer(delivery, delay=timedelta(hours=1))
    assert enqueue("h").outcome == "dropped"


def test_it_is_a_function_of_the_database_too():
    one, two = lease_messages(2)
    found = sql(
        "SELECT id FROM pgqueue_defer("
        "%s, %s, p_delays => ARRAY[interval '1 hour', NULL], p_states => ARRAY['{\"n\": 1}', NULL]::jsonb[])",
        [one.id, two.id], [one.token, two.token],
    )  # fmt: skip
    assert sorted(found) == [(one.id,), (two.id,)]
    assert live(one.id, "status", "state::text") == (Message.Status.SCHEDULED, '{"n": 1}')
    assert live(two.id, "status", "state") == (Message.Status.READY, None)
    [two] = dequeue()
    with refused(Exception, "years 2 to 9998"):
        sql("SELECT pgqueue_defer(%s, %s, p_until => ARRAY['infinity'::timestamptz])", [two.id], [two.token])


def test_deferrals_that_count_end_as_a_dead_letter_with_their_last_state():
    enqueue("h", max_attempts=2)
    [delivery] = dequeue()
    defer(delivery, state={"page": 1}, count_attempt=True)
    [last] = dequeue()
    assert last.last_attempt
    assert defer(last, delay=timedelta(days=1), state={"page": 2}, count_attempt=True) == {last.id: "dead_lettered"}
    letter = DeadLetter.objects.get()
    assert (letter.reason, letter.state, letter.attempts) == ("deferred", {"page": 2}, 2)
    assert not Message.objects.exists()


def test_a_cancelled_message_is_archived_and_not_dead_lettered_by_a_deferral_that_counts():
    enqueue("h", max_attempts=1)
    [delivery] = dequeue()
    cancel([delivery.id])
    assert defer(delivery, count_attempt=True) == {delivery.id: "cancelled"}
    assert not DeadLetter.objects.exists()
