from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgqueue import dequeue, enqueue, retry
from django_pgqueue.models import DeadLetter, Message
from django_pgqueue.outcomes import KEEP
from tests.support.cases import cases
from tests.support.messages import lease_messages, live, places
from tests.support.moments import pass_time
from tests.support.sql import sql

pytestmark = pytest.mark.django_db

OOPS = {"type": "ValueError", "message": "oops", "traceback": "…"}


def test_a_failed_message_comes_back_after_its_back_off():
    [delivery] = lease_messages(backoff=timedelta(minutes=1))
    assert retry(delivery, errors=[OOPS]) == {delivery.id: "retried"}
    assert live(delivery.id, "status") == Message.Status.SCHEDULED
    assert live(delivery.id, "dequeue_at - clock_timestamp() < interval '1 minute'")
    assert live(delivery.id, "leased_at", "lease_expires_at", "lease_token", "worker") == (None,) * 4
    pass_time(minutes=1)
    [again] = dequeue()
    assert (again.id, again.attempt) == (delivery.id, 2)


def test_a_delay_that_is_given_wins_over_the_back_off():
    one, two = lease_messages(2)
    retry([one, two], errors=[OOPS, OOPS], delays=[timedelta(hours=5), None])
    assert live(one.id, "dequeue_at - clock_timestamp() BETWEEN interval '4:59:50' AND interval '5:00:00'")
    assert live(two.id, "dequeue_at - clock_timestamp() < interval '1 second'")


def test_a_negative_delay_means_at_once():
    [delivery] = lease_messages()
    retry(delivery, errors=[OOPS], delays=[timedelta(-1)])
    assert live(delivery.id, "dequeue_at >= created_at")
    assert len(dequeue()) == 1


@cases(
    ("attempt", "base", "longest"),
    [
        (1, "1 second", 1), (2, "1 second", 2), (4, "1 second", 8), (3, "10 seconds", 40), (13, "1 second", 3600),
        (1, "2 hours", 3600), (1, None, 1), (5, None, 16), (7, "0", 0), (31, "3 hours", 3600), (1000, "2 days", 3600),
        (2_000_000_000, "1 second", 3600),
    ],
)  # fmt: skip
def test_the_back_off_is_exponential_with_full_jitter_and_an_hour_at_the_longest(
    attempt: int, base: str | None, longest: int
):
    [(least, most, average)] = sql(
        """
        SELECT min(s), max(s), avg(s)
        FROM (SELECT extract(epoch FROM pgqueue_backoff(%s, %s)) AS s FROM generate_series(1, 2000)) AS b""",
        attempt,
        base,
    )
    assert least >= 0
    assert most <= longest
    if longest:
        assert least < longest * 0.05
        assert most > longest * 0.95
        assert 0.45 * longest < average < 0.55 * longest


def test_every_error_is_kept_with_its_attempt():
    sent = enqueue("h", max_attempts=3)
    for n in range(3):
        [delivery] = dequeue(worker=f"worker {n}")
        retry(delivery, errors=[{"type": f"Error{n}"}], delays=[timedelta(0)])
    errors = DeadLetter.objects.get(pk=sent.id).errors
    assert [(error["attempt"], error["type"], error["worker"]) for error in errors] == [
        (1, "Error0", "worker 0"),
        (2, "Error1", "worker 1"),
        (3, "Error2", "worker 2"),
    ]
    assert all(error["leased_at"] < error["at"] for error in errors)


def test_used_up_attempts_end_as_a_dead_letter_that_failed():
    [delivery] = lease_messages(max_attempts=1)
    assert retry(delivery, errors=[OOPS]) == {delivery.id: "dead_lettered"}
    assert places(delivery.id) == ["dead letters"]
    letter = DeadLetter.objects.get()
    assert (letter.reason, letter.attempts, letter.worker, letter.errors[0]["message"]) == ("failed", 1, "me", "oops")


def test_raised_max_attempts_give_another_chance_and_lowered_ones_take_it():
    more, fewer = lease_messages(2, max_attempts=2)
    sql("UPDATE pgqueue_message SET max_attempts = CASE WHEN id = %s THEN 3 ELSE 1 END, attempts = 2", more.id)
    assert retry([more, fewer], errors=[OOPS, OOPS]) == {more.id: "retried", fewer.id: "dead_lettered"}


def test_a_retry_saves_the_state_that_it_is_given():
    first, second = lease_messages(2)
    errors = [{"type": "E"}] * 2
    retry([first, second], errors=errors, delays=[timedelta(0)] * 2, states=[{"page": 7}, KEEP])
    again = {delivery.id: delivery for delivery in dequeue(limit=2)}
    assert again[first.id].state == {"page": 7}
    assert again[second.id].state is None
    retry(again[first.id], errors=errors[:1], delays=[timedelta(0)])
    [third] = dequeue()
    assert third.state == {"page": 7}


def test_the_state_of_the_last_retry_is_kept_with_the_dead_letter():
    [delivery] = lease_messages(max_attempts=1)
    retry(delivery, errors=[{"type": "E"}], states=[None])
    assert DeadLetter.objects.get().state is None
    [delivery] = lease_messages(max_attempts=1)
    assert retry(delivery, errors=[{"type": "E"}], states=[[1]]) == {delivery.id: "dead_lettered"}
    assert DeadLetter.objects.get(pk=delivery.id).state == [1]
