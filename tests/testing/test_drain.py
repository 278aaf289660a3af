"""drain, inside of the transaction of a TestCase: pytest-django's `db` is one."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_pgqueue import (
    Complete,
    Constant,
    Defer,
    NewMessage,
    Reject,
    Retry,
    channel_set,
    enqueue,
    enqueue_many,
    handler,
    models,
    queue_pause,
)
from django_pgqueue.exceptions import HandlerError, UnknownHandler
from django_pgqueue.models import ArchivedMessage, Message
from django_pgqueue.testing import drain, drainer

pytestmark = pytest.mark.django_db


def test_an_enqueued_message_is_handled_and_archived(calls):
    @handler("t.note")
    def note(delivery):
        calls.append(delivery.payload)
        return Complete(result={"noted": delivery.payload})

    first = enqueue("t.note", 1).id
    enqueue("t.note", 2)

    drained = drain()

    assert calls == [1, 2]
    assert drained.counts == {"completed": 2}
    assert [(item.delivery.payload, item.event, item.error) for item in drained] == [
        (1, "completed", None),
        (2, "completed", None),
    ]
    assert ArchivedMessage.objects.get(pk=first).result == {"noted": 1}
    assert len(drain()) == 0


def test_messages_that_handlers_enqueue_are_handled_too_on_every_queue(calls):
    channel_set(channel="default", queue="other")

    @handler("t.count")
    def count(delivery):
        calls.append(delivery.payload)
        if delivery.payload:
            enqueue("t.count", delivery.payload - 1, queue="other")

    enqueue("t.count", 3)

    assert drain().counts == {"completed": 4}
    assert calls == [3, 2, 1, 0]


def test_one_queue_alone_and_only_so_many(calls):
    channel_set(channel="default", queue="other")
    handler("t.note")(lambda delivery: calls.append(delivery.payload))
    enqueue("t.note", "elsewhere", queue="other")
    enqueue_many(NewMessage(handler="t.note", payload=number) for number in range(3))

    drain("default", limit=2)

    assert calls == [0, 1]
    assert Message.objects.filter(status=Message.Status.READY).count() == 2


def test_the_handlers_error_is_raised_and_its_message_settled(calls):
    @handler("t.fail")
    def fail(delivery):
        calls.append(delivery.payload)
        raise KeyError("no such order")

    enqueue("t.fail", 1)
    enqueue("t.fail", 2)

    with pytest.raises(KeyError, match="no such order") as raised:
        drain()

    assert "t.fail" in raised.value.__notes__[0]
    assert calls == [1]
    # The second was leased with the first, and waits as if it had never been taken.
    assert list(Message.objects.order_by("id").values_list("status", "attempts")) == [
        (Message.Status.SCHEDULED, 1),
        (Message.Status.READY, 0),
    ]


def test_errors_can_be_collected():
    @handler("t.fail", max_attempts=2, backoff=Constant(timedelta(hours=1)))
    def fail(delivery):
        raise KeyError("no such order")

    enqueue("t.fail")
    [first] = drain(raise_errors=False)
    assert (first.event, repr(first.error)) == ("retried", "KeyError('no such order')")
    assert len(drain(raise_errors=False)) == 0

    [last] = drain(with_scheduled=True, raise_errors=False)

    assert (last.event, last.delivery.attempt) == ("dead_lettered", 2)
    assert models.DeadLetter.objects.get().errors[0]["type"] == "KeyError"


@pytest.mark.parametrize("put_off", [Retry(after=timedelta(0)), Defer(delay=timedelta(microseconds=1))])
def test_a_pause_that_is_over_at_once_is_still_a_pause(put_off):
    handler("t.later")(lambda delivery: put_off)
    enqueue("t.later")

    assert len(drain()) == 1
    assert Message.objects.get().status in (Message.Status.READY, Message.Status.SCHEDULED)
    assert len(drain()) == 1


def test_outcomes_are_no_errors():
    @handler("t.answer")
    def answer(delivery):
        raise {"dead": Reject("unwanted"), "retry": Retry(error="busy"), "defer": Defer(delay=timedelta(1))}[
            delivery.payload
        ]

    for what in ("dead", "retry", "defer"):
        enqueue("t.answer", what)

    drained = drain()

    assert drained.counts == {"dead_lettered": 1, "retried": 1, "deferred": 1}
    assert [type(item.outcome) for item in drained] == [Reject, Retry, Defer]


def test_scheduled_messages_wait_unless_they_are_asked_for_and_come_in_their_order(calls):
    handler("t.note")(lambda delivery: calls.append(delivery.payload))
    enqueue("t.note", "in two hours", delay=timedelta(hours=2))
    enqueue("t.note", "in an hour", delay=timedelta(hours=1))

    assert len(drain()) == 0
    drain(with_scheduled=True)

    assert calls == ["in an hour", "in two hours"]


def test_a_drain_that_never_ends_is_stopped_with_an_error(monkeypatch):
    handler("t.again")(lambda delivery: Defer())
    enqueue("t.again")

    assert drain(limit=5).counts == {"deferred": 5}
    monkeypatch.setattr(drainer, "MOST_DELIVERIES", 20)
    with pytest.raises(RuntimeError, match="20 deliveries"):
        drain()


def test_a_message_without_a_handler_is_an_error():
    enqueue("t.unknown")

    with pytest.raises(UnknownHandler, match=r"t\.unknown"):
        drain()


def test_an_answer_that_is_no_outcome_or_no_json_is_an_error():
    # The usual pause has jitter, and may be over at once.
    pause = Constant(timedelta(hours=1))
    handler("t.nonsense", backoff=pause)(lambda delivery: 42)
    handler("t.no_json", backoff=pause)(lambda delivery: Complete(result=object()))
    enqueue("t.nonsense")
    enqueue("t.no_json")

    with pytest.raises(HandlerError, match="returned int"):
        drain()
    with pytest.raises(HandlerError, match="cannot be written down"):
        drain()
    assert set(Message.objects.values_list("status", flat=True)) == {Message.Status.SCHEDULED}


def test_limits_pauses_and_turns_are_those_of_the_queue(calls):
    for name in ("a", "b"):
        channel_set(channel=name)
    channel_set(channel="slow", release_interval=timedelta(hours=1))
    handler("t.note")(lambda delivery: calls.append(delivery.channel))
    enqueue_many(NewMessage(handler="t.note", channel=name) for name in ("slow", "slow", "a", "a", "b", "b"))

    drain()
    assert sorted(calls) == ["a", "a", "b", "b", "slow"]

    queue_pause("default")
    enqueue("t.note", channel="a")
    assert len(drain()) == 0


def test_many_messages_in_one_transaction_are_handled_once_each(calls):
    for number in range(20):
        channel_set(channel=f"c{number}", max_concurrency=1 + number % 3 if number % 2 else None)
    handler("t.note")(lambda delivery: calls.append((delivery.channel, delivery.payload)))
    for number in range(300):
        enqueue("t.note", number, channel=f"c{number % 20}", priority=number % 5)
        if number % 50 == 0:
            drain(limit=7)
    drain()

    assert sorted(payload for _, payload in calls) == list(range(300))
    assert not Message.objects.exists()


def test_ctrl_c_is_never_swallowed():
    @handler("t.stop")
    def stop(delivery):
        raise KeyboardInterrupt

    enqueue("t.stop")

    with pytest.raises(KeyboardInterrupt):
        drain(raise_errors=False)
