from __future__ import annotations

import pytest

from django_pgqueue import cancel, complete, defer, dequeue, enqueue, heartbeat, lease_release
from django_pgqueue.exceptions import LeaseLost
from django_pgqueue.models import DeadLetter, Message
from tests.support.messages import live, places
from tests.support.refusals import refused

pytestmark = pytest.mark.django_db


def test_the_message_is_ready_at_once_and_the_attempt_counts():
    enqueue("h")
    [held] = dequeue(worker="gone")
    assert lease_release(held.id, reason="the host died") == {held.id: "released"}
    assert live(held.id, "status") == Message.Status.READY
    [again] = dequeue()
    assert (again.id, again.attempt) == (held.id, 2)
    [error] = Message.objects.get(pk=again.id).errors
    assert (error["type"], error["worker"]) == ("LeaseReleased", "gone")
    assert error["message"] == "the lease of worker gone was taken away: the host died"


def test_the_old_holder_has_lost_it():
    enqueue("h")
    [held] = dequeue()
    lease_release(held.id)
    with refused(LeaseLost):
        complete(held)
    with refused(LeaseLost):
        heartbeat(held)
    # Nor does a repeated call hear that it has settled this before: it has not.
    assert defer(held, skip_lost=True) == {}
    [again] = dequeue()
    with refused(LeaseLost):
        complete(held)
    assert complete(held, skip_lost=True) == set()
    assert complete(again) == {again.id}


def test_a_message_without_attempts_becomes_poison():
    enqueue("h", max_attempts=1)
    [held] = dequeue()
    assert lease_release(held.id) == {held.id: "dead_lettered"}
    assert DeadLetter.objects.get().reason == "poison"
    with refused(LeaseLost):
        complete(held)


def test_a_message_with_a_requested_cancel_goes_to_the_archive():
    enqueue("h")
    [held] = dequeue()
    cancel(held.id)
    assert lease_release(held.id) == {held.id: "cancelled"}
    assert places(held.id) == ["archive"]


def test_messages_without_a_lease_are_left_alone():
    waiting, done = enqueue("h", priority=-1), enqueue("h")
    complete(dequeue())
    assert lease_release([waiting.id, done.id, 10**15]) == {
        waiting.id: "waiting",
        done.id: "settled",
        10**15: "not_found",
    }
    assert live(waiting.id, "attempts", "errors") == (0, None)
    assert lease_release([]) == {}


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_settles_it_at_this_moment_wins(connect):
    enqueue("h")
    [held] = dequeue()
    other = connect()
    other.execute("SELECT pgqueue_complete(ARRAY[%s::bigint], ARRAY[%s::uuid])", [held.id, held.token])
    assert lease_release(held.id) == {held.id: "busy"}
    other.commit()
    assert places(held.id) == ["archive"]
