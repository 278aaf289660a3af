from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgqueue import channel_set, complete, defer, dequeue, discard, edit, enqueue, redrive, reschedule
from django_pgqueue.exceptions import LeaseLost
from django_pgqueue.models import DeadLetter
from tests.support.messages import places
from tests.support.refusals import refused

pytestmark = pytest.mark.django_db


def test_waiting_messages_become_dead_letters_and_can_be_redriven():
    ready, later = enqueue("h", {"n": 1}), enqueue("h", delay=timedelta(hours=1))
    assert discard([ready.id, later.id], reason="kills the workers") == {ready.id: "discarded", later.id: "discarded"}
    assert places(ready.id) == places(later.id) == ["dead letters"]
    letter = DeadLetter.objects.get(pk=ready.id)
    assert (letter.reason, letter.details, letter.attempts) == ("discarded", {"message": "kills the workers"}, 0)
    assert dequeue() == []
    redrive([ready.id])
    assert [delivery.payload for delivery in dequeue()] == [{"n": 1}]


def test_the_holder_has_lost_it():
    enqueue("h")
    [held] = dequeue()
    assert discard(held.id) == {held.id: "discarded"}
    assert DeadLetter.objects.get().details is None
    with refused(LeaseLost):
        complete(held)
    assert complete(held, skip_lost=True) == set()
    # Nor does a repeated call hear that it has settled this before: it has not.
    assert defer(held, skip_lost=True) == {}
    assert places(held.id) == ["dead letters"]


def test_it_frees_room_places_and_keys():
    channel_set(channel="default", max_size=2, max_concurrency=1)
    first, second = enqueue("h", dedupe_key="k"), enqueue("h")
    dequeue()
    discard([first.id, second.id])
    assert enqueue("h", dedupe_key="k").created
    assert enqueue("h").created
    assert len(dequeue(limit=2)) == 1


def test_settled_messages_stay_where_they_are():
    done = enqueue("h")
    complete(dequeue())
    assert discard([done.id, 10**15]) == {done.id: "settled", 10**15: "not_found"}
    assert places(done.id) == ["archive"]
    assert discard([]) == {}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("verb", [discard, reschedule, lambda message: {message: edit(message, 2)}])
def test_a_session_that_takes_a_message_is_not_waited_for(connect, verb):
    enqueue("h")
    other = connect()
    [(taken,)] = other.execute("SELECT id FROM pgqueue_dequeue()").fetchall()
    assert verb(taken) == {taken: "busy"}
    other.commit()
    assert places(taken) == ["live"]
