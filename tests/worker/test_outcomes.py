"""Each outcome from handler to table, through a whole worker."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.dispatch import Signal

from django_pgqueue import Cancelled, Complete, enqueue, queue_pause, signals
from django_pgqueue.models import ArchivedMessage, DeadLetter, Message
from tests.support.waiting import eventually
from tests.worker.conftest import effects, mark, script, scripts, where

Drain = Callable[..., dict[str, int]]


@pytest.fixture
def heard() -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """The signals that were sent: name and arguments."""
    found: list[tuple[str, dict[str, Any]]] = []
    names = ("message_completed", "message_deferred", "message_retried", "message_dead_lettered")
    receivers: list[tuple[Signal, Callable[..., None]]] = []
    for name in names:

        def receiver(name: str = name, **arguments: Any) -> None:
            found.append((name, arguments))

        getattr(signals, name).connect(receiver)
        receivers.append((getattr(signals, name), receiver))
    yield found
    for signal, receiver in receivers:
        signal.disconnect(receiver)


def test_a_handler_that_returns_nothing_completes(drain: Drain) -> None:
    message = script(["effect"])
    assert drain() == {"completed": 1}
    assert where(message) == "completed"
    assert effects() == [(message, 1)]


def test_a_result_is_kept_in_the_archive(drain: Drain) -> None:
    with_result, without = script(["complete", {"miles": 733}]), script(["complete"])
    assert drain() == {"completed": 2}
    assert ArchivedMessage.objects.get(id=with_result).result == {"miles": 733}
    assert ArchivedMessage.objects.get(id=without).result is None


def test_a_deferral_keeps_state_and_gives_its_attempt_back(drain: Drain) -> None:
    message = script(["fresh", ["effect"], ["defer", 0, {"page": 2}]], ["effect"], max_attempts=1)
    assert drain() == {"deferred": 1, "completed": 1}
    assert effects() == [(message, 1), (message, 1)]
    assert ArchivedMessage.objects.get(id=message).state == {"page": 2}


def test_an_exception_is_retried_and_kept(start: Callable[..., Any]) -> None:
    message = script(["effect"], ["first", ["fail", "no gate"]])
    start(maintenance=True)
    eventually(lambda: ArchivedMessage.objects.filter(id=message).exists())
    assert effects() == [(message, 1), (message, 2)]
    error = ArchivedMessage.objects.get(id=message).errors[0]
    assert (error["attempt"], error["type"], error["message"]) == (1, "ValueError", "no gate")
    assert "in play" in error["traceback"]


def test_a_message_that_fails_each_time_is_dead_lettered_as_failed(start: Callable[..., Any]) -> None:
    message = script(["fail", "never"], max_attempts=3)
    worker = start(maintenance=True)
    eventually(lambda: DeadLetter.objects.filter(id=message).exists())
    worker.stop()
    worker.join()
    assert where(message) == "dead: failed"
    assert [error["attempt"] for error in DeadLetter.objects.get(id=message).errors] == [1, 2, 3]
    assert worker.ledger.totals()["retried"] == 2
    assert worker.ledger.totals()["dead_lettered"] == 1


def test_a_retry_waits_as_long_as_the_handler_says(drain: Drain) -> None:
    message = script(["retry", 3600, "quota"])
    assert drain() == {"retried": 1}
    row = Message.objects.get(id=message)
    assert row.dequeue_at - row.created_at > timedelta(minutes=59)
    assert row.errors[0]["message"] == "quota"


def test_a_refusal_is_dead_lettered_with_its_reason(drain: Drain) -> None:
    message = script(["raise", "dead_letter", "cancelled", {"flight": "UA1"}])
    assert drain() == {"dead_lettered": 1}
    assert where(message) == "dead: cancelled"
    assert DeadLetter.objects.get(id=message).details == {"flight": "UA1"}


def test_an_error_of_the_project_that_is_called_like_ours_is_not_taken_for_it(
    drain: Drain, register: Callable[..., None]
) -> None:
    class PaymentHandlerError(Exception): ...

    def fail(delivery: Any) -> None:
        raise PaymentHandlerError

    register("payment", fail, backoff=lambda attempt, error: timedelta(days=400_000))
    message = script(handler="payment", max_attempts=1)
    assert drain() == {"dead_lettered": 1}
    assert "cannot be written down" in DeadLetter.objects.get(id=message).errors[0]["message"]


@pytest.mark.parametrize("handler", ["scripted", "scripted.atomic"])
def test_a_result_that_is_not_json_fails_its_message_and_no_other(drain: Drain, handler: str) -> None:
    good = scripts(3, ["effect"], handler=handler)
    bad = script(["object"], handler=handler, max_attempts=1)
    also_good = scripts(3, ["effect"], handler=handler)
    assert drain(concurrency=1) == {"completed": 6, "dead_lettered": 1}
    assert {where(message) for message in good + also_good} == {"completed"}
    assert "not JSON" in DeadLetter.objects.get(id=bad).errors[0]["message"]


def test_a_wrong_delay_of_a_retry_is_the_handlers_failure(drain: Drain) -> None:
    def wrong(delivery: Any) -> Any:
        from django_pgqueue import Retry

        return Retry(after=5)

    from django_pgqueue import handlers

    handlers.handler("wrong")(wrong)
    try:
        message = script(handler="wrong", max_attempts=1)
        drain()
        assert "not a timedelta" in DeadLetter.objects.get(id=message).errors[0]["message"]
    finally:
        handlers.unregister("wrong")


def test_signals_tell_what_happened_after_it_is_true(drain: Drain, heard: list[tuple[str, dict[str, Any]]]) -> None:
    ids = {
        "message_completed": script(["complete"]),
        "message_deferred": script(["defer", 3600]),
        "message_retried": script(["retry", 3600]),
        "message_dead_lettered": script(["dead_letter", "refused"]),
    }
    drain()
    assert {name: arguments["delivery"].id for name, arguments in heard} == ids
    assert all(arguments["using"] == "default" for _, arguments in heard)
    assert dict(heard)["message_dead_lettered"]["reason"] == "refused"


@pytest.mark.parametrize("handler", ["scripted", "scripted.atomic"])
def test_a_receiver_that_raises_changes_nothing(drain: Drain, handler: str) -> None:
    def receiver(**arguments: Any) -> None:
        raise RuntimeError("observer")

    signals.message_completed.connect(receiver)
    try:
        messages = scripts(3, ["effect"], handler=handler)
        assert drain() == {"completed": 3}
        assert {where(message) for message in messages} == {"completed"}
        assert len(effects()) == 3
    finally:
        signals.message_completed.disconnect(receiver)


def test_many_messages_of_all_kinds_end_exactly_once(drain: Drain) -> None:
    kinds = [["effect"]], [["effect"], ["dead_letter", "refused"]], [["effect"], ["raise", "complete"]]
    messages = [message for steps in kinds for message in scripts(100, *steps)]
    assert drain(concurrency=8, batch=20) == {"completed": 200, "dead_lettered": 100}
    assert sorted(message for message, _ in effects()) == sorted(messages)
    assert Message.objects.count() == 0


def test_once_takes_one_batch_and_leaves_the_rest(start: Callable[..., Any]) -> None:
    scripts(10, ["effect"])
    worker = start(once=True, batch=4)
    worker.join()
    assert worker.clean
    assert len(effects()) == 4
    assert Message.objects.count() == 6


def test_once_with_nothing_there_ends(start: Callable[..., Any]) -> None:
    worker = start(once=True)
    worker.join()
    assert worker.clean


def test_drain_waits_for_messages_behind_a_limit(drain: Drain) -> None:
    from django_pgqueue import channel_set

    channel_set(channel="narrow", max_concurrency=1)
    channel_set(channel="slow", release_interval=timedelta(milliseconds=100))
    narrow, slow = scripts(5, ["effect"], channel="narrow"), scripts(4, ["effect"], channel="slow")
    assert drain(concurrency=4) == {"completed": 9}
    assert {where(message) for message in narrow + slow} == {"completed"}


def test_a_channel_with_a_rate_is_served_at_its_rate_not_at_the_poll_interval(start: Callable[..., Any]) -> None:
    from django_pgqueue import channel_set

    channel_set(channel="slow", release_interval=timedelta(milliseconds=100))
    messages = scripts(4, ["effect"], channel="slow")
    start(poll_interval=timedelta(minutes=1))
    eventually(lambda: {where(message) for message in messages} == {"completed"})


def test_drain_leaves_what_is_paused_or_not_due(drain: Drain) -> None:
    from django_pgqueue import channel_pause, channel_set

    channel_set(channel="paused")
    paused, later = script(channel="paused"), script(delay=timedelta(hours=1))
    channel_pause(channel="paused")
    assert drain() == {}
    assert (where(paused), where(later)) == ("live: ready", "live: scheduled")


def test_drain_ends_before_a_paused_queue(drain: Drain) -> None:
    message = script()
    queue_pause("default")
    assert drain() == {}
    assert where(message) == "live: ready"


def test_several_queues_are_served(drain: Drain) -> None:
    from django_pgqueue import channel_set

    channel_set(channel="default", queue="emails")
    channel_set(channel="default", queue="nobody's")
    served = [script(), script(queue="emails")]
    left = script(queue="nobody's")
    assert drain(queues=("default", "emails")) == {"completed": 2}
    assert {where(message) for message in served} == {"completed"}
    assert where(left) == "live: ready"


def test_a_slow_handler_leaves_messages_to_other_workers(start: Callable[..., Any]) -> None:
    """A message that waits in memory behind a slow handler could have been started elsewhere."""
    scripts(20, ["effect"], ["await", "go"])
    start(concurrency=2)
    eventually(lambda: len(effects()) == 2)
    assert Message.objects.filter(status=Message.Status.LEASED).count() == 2
    mark("go")
    eventually(lambda: Message.objects.count() == 0)


def test_an_outcome_or_a_handler_says_what_is_archived(drain: Drain, register: Callable[..., None]) -> None:
    answers: dict[int, Any] = {}
    register("silent", lambda delivery: answers[delivery.payload], archive="outcome")
    register("batch", lambda batch: {delivery.id: answers[delivery.payload] for delivery in batch}, batch=9)
    register("atomic", lambda delivery: answers[delivery.payload], atomic=True, archive="none")
    answers |= {1: None, 2: Complete(result=2), 3: Complete(result=3, archive="full"), 4: Cancelled("why")}
    answers |= {5: Complete(archive="none"), 6: Complete(archive="outcome")}
    sent = {(name, n): enqueue(name, n).id for name in ("silent", "batch", "atomic") for n in answers}
    assert drain() == {"completed": 15, "cancelled": 3}
    kept = {message.id: (message.payload, message.result) for message in ArchivedMessage.objects.all()}
    found = {(name, n): kept.get(sent[name, n], "nothing") for name, n in sent}
    reason = {"reason": "why"}
    assert [found["silent", n] for n in answers] == [
        (None, None), (None, None), (3, 3), (None, reason), "nothing", (None, None),
    ]  # fmt: skip
    assert [found["batch", n] for n in answers] == [(1, None), (2, 2), (3, 3), (4, reason), "nothing", (None, None)]
    assert [found["atomic", n] for n in answers] == ["nothing", "nothing", (3, 3), "nothing", "nothing", (None, None)]


def test_the_choice_of_what_is_archived_comes_from_another_process() -> None:
    outcome = pickle.loads(pickle.dumps(Complete(result=1, archive="none")))
    assert (outcome.result, outcome.archive, outcome) == (1, "none", Complete(1, "none"))
    assert outcome != Complete(1)
