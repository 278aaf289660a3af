"""Messages that wait for others, in one session: when they are let go, and what becomes of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from django_pgqueue import (
    NewMessage,
    Unique,
    cancel,
    channel_erase,
    channel_purge,
    channel_set,
    complete,
    dead_letter,
    delete_dead,
    dequeue,
    discard,
    enqueue,
    enqueue_many,
    explain_message,
    limit_set,
    pop,
    prune,
    redrive,
    reschedule,
)
from django_pgqueue.delivery import Delivery, Enqueued
from django_pgqueue.exceptions import ChannelFull, InvalidMessage, LeaseLost
from django_pgqueue.flow import Batch, Ended, batch_of, chain, results_of
from django_pgqueue.models import ArchivedMessage, Message
from django_pgqueue.testing import drain
from tests.support.refusals import refused, rolled_back
from tests.support.sql import sql

pytestmark = pytest.mark.django_db


def take(*handlers: str) -> list[Delivery[Any]]:
    """Lease what is ready, which must be of these handlers."""
    taken = dequeue(limit=100)
    assert sorted(delivery.handler for delivery in taken) == sorted(handlers)
    return taken


def die(delivery: Delivery[Any]) -> None:
    dead_letter(delivery, reason="rejected")


def ended_as(answer: Enqueued) -> tuple[str, Any]:
    found = ArchivedMessage.objects.get(pk=answer.id)
    return found.outcome, found.result


def nothing_left() -> bool:
    """Return whether the tables have no row of messages that wait."""
    return sql(
        "SELECT (SELECT count(*) FROM pgqueue_batch) + (SELECT count(*) FROM pgqueue_batch_member) "
        "+ (SELECT count(*) FROM pgqueue_batch_lost)"
    ) == [(0,)]


def test_it_waits_for_all_and_reads_their_results():
    a, b = enqueue("a"), enqueue("b")
    load = enqueue("load", {"day": 1}, headers={"trace": "t"}, after=[b, a])
    first, second = take("a", "b")
    complete(first, results=[1])
    take()
    complete(second, results=[{"rows": 2}])
    [delivery] = take("load")
    assert (delivery.id, delivery.payload) == (load.id, {"day": 1})
    assert delivery.headers == {"trace": "t", "after": [b.id, a.id]}
    assert results_of(delivery) == [Ended(b.id, "b", "completed", {"rows": 2}), Ended(a.id, "a", "completed", 1)]
    complete(delivery)
    assert nothing_left()


def test_one_call_settles_all_that_it_waits_for():
    enqueue("load", after=enqueue_many([NewMessage(handler="a")] * 50))
    complete(take(*["a"] * 50))
    complete(take("load"))
    assert nothing_left()


def test_many_wait_for_one():
    [a] = enqueue_many([NewMessage(handler="a")])
    enqueue_many([NewMessage(handler="b", after=[a.id]) for _ in range(3)])
    complete(take("a"))
    take("b", "b", "b")


def test_a_chain_runs_one_after_the_other():
    answers = chain("a", NewMessage(handler="b", payload=[2]), "c")
    assert [answer.outcome for answer in answers] == ["created"] * 3
    for handler in "abc":
        complete(take(handler))
    assert nothing_left()


def test_a_message_of_a_chain_may_have_an_on_dead_of_its_own():
    load, mail = chain("a", "load", NewMessage(handler="mail", on_dead="run"))[1:]
    die(take("a")[0])
    assert ended_as(load)[0] == "cancelled"
    [delivery] = take("mail")
    assert delivery.id == mail.id


def test_the_first_one_of_a_chain_goes_by_the_chain_too():
    a = enqueue("a")
    chain(NewMessage(handler="load", after=[a]), "mail", on_dead="run")
    die(take("a")[0])
    complete(take("load"))
    take("mail")


def test_a_chain_that_is_refused_leaves_nothing():
    channel_set(channel="small", max_size=1)
    with pytest.raises(ChannelFull):
        chain("a", NewMessage(handler="b", channel="small"), NewMessage(handler="c", channel="small"))
    assert not Message.objects.exists()
    assert nothing_left()


def test_a_message_that_is_over_counts_at_once():
    a, b = enqueue("a"), enqueue("b")
    complete(take("a", "b"), results=["x", "y"])
    enqueue("load", after=[a, b])
    [delivery] = take("load")
    assert [each.result for each in results_of(delivery)] == ["x", "y"]


def test_no_message_to_wait_for():
    enqueue("load", after=[])
    assert results_of(take("load")[0]) == []


@pytest.mark.parametrize("unknown", [0, 10**15, "7"])
def test_only_messages_that_exist_can_be_waited_for(unknown: Any):
    with refused(InvalidMessage):
        enqueue("load", after=[unknown])
    assert not Message.objects.exists()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"after": [], "on_dead": "explode"}, "on_dead"),
        ({"on_dead": "run"}, "without after"),
        ({"after": [], "unique": Unique("k")}, "unique and after"),
        ({"after": 7}, "no list"),
        ({"after": [Enqueued(None, "dropped")]}, "not enqueued"),
        ({"after": range(1, 1002)}, "batch"),
        ({"after": [], "delay": timedelta(1), "priority": 40_000}, "priority"),
    ],
)
def test_what_is_refused(options: dict[str, Any], match: str):
    with refused(InvalidMessage, match=match):
        enqueue("load", **options)


def test_a_refusal_of_the_queue_is_returned():
    channel_set(channel="small", max_size=1)
    a = enqueue("a", channel="small")
    assert enqueue("load", channel="small", after=[a], on_refused="return").outcome == "full"
    assert enqueue("load", after=[10**12], on_refused="return").outcome == "invalid"
    complete(take("a"))
    assert enqueue("load", channel="small", after=[a]).created


def test_a_duplicate_waits_for_nothing():
    a = enqueue("a")
    load = enqueue("load", dedupe_key="k")
    assert enqueue("load", dedupe_key="k", after=[a]) == Enqueued(load.id, "duplicate")
    assert nothing_left()
    take("a", "load")


LOSSES = {
    "dead": lambda answer: die(take("a")[0]),
    "discarded": lambda answer: discard(answer.id),
    "cancelled": lambda answer: cancel(answer.id),
    "purged": lambda answer: channel_purge(channel="default"),
    "erased": lambda answer: channel_erase(queue="default", channel="default"),
}
OUTCOME = {"discarded": "dead"}


@pytest.mark.parametrize("how", LOSSES)
def test_it_is_cancelled_with_the_one_that_it_waited_for(how: str):
    channel_set(channel="other")
    a = enqueue("a")
    load = enqueue("load", channel="other", after=[a])
    last = enqueue("last", channel="other", after=[load])
    LOSSES[how](a)
    reason = f"message {a.id}, which it waited for, was not completed: {OUTCOME.get(how, how)}"
    assert ended_as(load) == ("cancelled", {"reason": reason})
    assert ended_as(last)[0] == "cancelled"
    assert nothing_left()


def test_it_is_cancelled_when_the_others_have_ended():
    a, b = enqueue("a"), enqueue("b")
    load = enqueue("load", after=[a, b])
    first, second = take("a", "b")
    die(first)
    assert Message.objects.filter(pk=load.id).exists()
    complete(second)
    assert ended_as(load)[0] == "cancelled"


def test_no_redrive_brings_back_one_that_was_cancelled_in_a_chain():
    """The first one is dead, the second one cancelled: so the third one does not wait for a redrive."""
    a = enqueue("a")
    last = enqueue("last", after=[enqueue("load", after=[a])], on_dead="wait")
    die(take("a")[0])
    assert ended_as(last)[0] == "cancelled"
    assert nothing_left()


def test_a_long_chain_is_cancelled_in_one_call():
    """Step by step: calls within calls would reach the depth of the stack."""
    answers = chain(*["a"] * 600)
    cancel(answers[0].id)
    assert ArchivedMessage.objects.filter(outcome="cancelled").count() == 600
    assert nothing_left()


def test_it_runs_all_the_same():
    a, b = enqueue("a"), enqueue("b")
    enqueue("load", after=[a, b], on_dead="run")
    first, second = take("a", "b")
    die(first)
    take()
    complete(second)
    [delivery] = take("load")
    assert [each.outcome for each in results_of(delivery)] == ["dead", "completed"]


def test_a_message_that_is_dead_already():
    a = enqueue("a")
    die(take("a")[0])
    assert ended_as(enqueue("load", after=[a]))[0] == "cancelled"
    enqueue("load", after=[a], on_dead="run")
    enqueue("late", after=[a], on_dead="wait")
    complete(take("load"))
    redrive([a.id])
    complete(take("a"), results=[1])
    [late] = take("late")
    assert [each.result for each in results_of(late)] == [1]


def test_it_waits_for_the_redrive_of_a_dead_letter():
    a, b = enqueue("a"), enqueue("b")
    load = enqueue("load", after=[a, b], on_dead="wait")
    first, second = take("a", "b")
    die(first)
    complete(second)
    take()
    assert "dead letter" in explain_message(load.id)[0].sentence
    [again] = redrive([a.id]).values()
    [taken] = take("a")
    assert taken.id == again
    complete(taken, results=["at last"])
    [delivery] = take("load")
    assert [each.result for each in results_of(delivery)] == ["at last", None]
    complete(delivery)
    assert nothing_left()


def test_one_that_died_twice():
    a = enqueue("a")
    enqueue("load", after=[a], on_dead="wait")
    for _ in range(2):
        die(take("a")[0])
        redrive(list(sql("SELECT id FROM pgqueue_dead_letter WHERE redriven_at IS NULL")[0]))
    complete(take("a"))
    take("load")


def test_a_message_that_was_redriven_stands_for_the_new_one():
    a = enqueue("a")
    die(take("a")[0])
    redrive([a.id])
    enqueue("load", after=[a])
    complete(take("a"), results=[5])
    [delivery] = take("load")
    assert [each.result for each in results_of(delivery)] == [5]


@pytest.mark.parametrize("how", ["deleted", "pruned", "erased"])
def test_a_dead_letter_that_is_deleted_ends_the_wait(how: str, settings: Any):
    channel_set(channel="tenant")
    a = enqueue("a", channel="tenant")
    load = enqueue("load", after=[a], on_dead="wait")
    die(take("a")[0])
    if how == "deleted":
        delete_dead([a.id])
    elif how == "pruned":
        settings.DJANGO_PGQUEUE = {"DEAD_LETTER_RETENTION": timedelta(0)}
        prune()
    else:
        channel_erase(queue="default", channel="tenant")
    assert ended_as(load)[0] == "cancelled"
    assert nothing_left()


def test_a_redrive_does_not_bring_back_what_was_cancelled():
    a = enqueue("a")
    load = enqueue("load", after=[a])
    die(take("a")[0])
    redrive([a.id])
    complete(take("a"))
    take()
    assert ended_as(load)[0] == "cancelled"


@pytest.mark.parametrize("how", ["cancelled", "purged", "discarded", "erased"])
def test_a_message_that_ends_before_its_time_waits_no_more(how: str):
    channel_set(channel="tenant")
    a, b = enqueue("a"), enqueue("b")
    load = enqueue("load", channel="tenant", after=[a, b])
    last = enqueue("last", after=[load], on_dead="run")
    first, second = take("a", "b")
    die(first)
    {
        "cancelled": lambda: cancel(load.id),
        "purged": lambda: channel_purge(channel="tenant"),
        "discarded": lambda: discard(load.id),
        "erased": lambda: channel_erase(queue="default", channel="tenant"),
    }[how]()
    [delivery] = take("last")
    assert delivery.id == last.id
    complete([second, delivery])
    take()
    assert nothing_left()


def test_one_for_which_none_waits_leaves_nothing_when_it_is_cancelled():
    """Also if the one that it waited for never ends."""
    a = enqueue("a")
    load = enqueue("load", after=[a])
    cancel(load.id)
    assert sql("SELECT id FROM pgqueue_batch") == []
    complete(take("a"))
    assert nothing_left()


def test_a_discarded_message_that_is_redriven_runs_at_once():
    a = enqueue("a")
    load = enqueue("load", after=[a])
    discard(load.id)
    redrive([load.id])
    take("a", "load")


def test_it_counts_for_max_size():
    channel_set(channel="small", max_size=2)
    a = enqueue("a")
    enqueue("load", channel="small", after=[a])
    enqueue("load", channel="small", after=[a])
    with pytest.raises(ChannelFull):
        enqueue("load", channel="small")
    complete(take("a"))
    complete(take("load", "load"))
    enqueue("load", channel="small")


def test_a_full_channel_drops_those_that_wait_after_those_that_are_due():
    channel_set(channel="small", max_size=2, full_policy="drop_oldest")
    a = enqueue("a")
    load = enqueue("load", channel="small", after=[a])
    ready = enqueue("b", channel="small")
    assert enqueue("b", channel="small").dropped_ids == (ready.id,)
    complete(take("a", "b"))
    [load_now] = take("load")
    assert load_now.id == load.id


def test_an_enqueue_that_drops_the_one_that_it_waits_for():
    channel_set(channel="small", max_size=1, full_policy="drop_oldest")
    a = enqueue("a", channel="small")
    load = enqueue("load", channel="small", after=[a])
    assert load.dropped_ids == (a.id,)
    assert ended_as(load)[0] == "cancelled"
    assert nothing_left()


def test_its_time_counts_too():
    a = enqueue("a")
    load = enqueue("load", after=[a], delay=timedelta(hours=1))
    complete(take("a"))
    take()
    assert Message.objects.get(pk=load.id).status == Message.Status.SCHEDULED
    reschedule([load.id])
    take("load")


def test_it_has_been_due_since_it_was_let_go():
    a = enqueue("a")
    load = enqueue("load", after=[a])
    sql("UPDATE pgqueue_message SET dequeue_at = dequeue_at - interval '1 hour' WHERE id = %s", load.id)
    complete(take("a"))
    assert Message.objects.get(pk=load.id).dequeue_at >= Message.objects.get(pk=load.id).created_at


def test_a_reschedule_does_not_let_it_go():
    a = enqueue("a")
    load = enqueue("load", after=[a])
    later = Message.objects.get(pk=load.id).created_at + timedelta(hours=1)
    for at in (later, None):
        assert reschedule([load.id], at=at) == {load.id: "rescheduled"}
        message = Message.objects.get(pk=load.id)
        assert (message.status, message.waits_for) == (Message.Status.SCHEDULED, -2)
    complete(take("a"))
    take("load")


def test_it_goes_on_to_wait_for_its_limit():
    limit_set("stripe", max_concurrency=1)
    a = enqueue("a")
    enqueue("load", after=[a], limits=["stripe"])
    enqueue("other", limits=["stripe"])
    first, other = take("a", "other")
    complete(first)
    take()
    assert Message.objects.get(handler="load").waits_for > 0
    complete(other)
    take("load")


def test_it_keeps_its_place_of_its_order_key():
    a = enqueue("a")
    enqueue("first", after=[a], order_key="k")
    enqueue("second", order_key="k")
    [first] = take("a")
    complete(first)
    [delivery] = take("first")
    complete(delivery)
    take("second")


def test_it_is_a_member_of_its_batch():
    with Batch(on_done="done", on_dead="dead") as batch:
        a = enqueue("a")
        enqueue("load", after=[a])
    complete(take("a"))
    assert batch.counts().outstanding == 1
    [load] = take("load")
    assert batch_of(load).id == batch.id
    complete(load)
    take("done")


def test_a_member_that_is_cancelled_is_lost_to_its_batch():
    a = enqueue("a")
    with Batch(on_done="done", on_dead="dead") as batch:
        enqueue("load", after=[a])
    die(take("a")[0])
    assert batch.counts().lost == {"cancelled": 1}
    take("dead")


def test_a_popped_message_is_done():
    a = enqueue("a")
    enqueue("load", after=[a])
    pop()
    take("load")


def test_a_transaction_that_rolls_back_leaves_nothing():
    a = enqueue("a")
    with rolled_back():
        enqueue("load", after=[a])
    assert nothing_left()
    complete(take("a"))
    take()


def test_explain_says_what_it_waits_for():
    a, b = enqueue("a"), enqueue("b")
    load = enqueue("load", after=[a, b])
    last = enqueue("last", after=[load])
    complete(take("a", "b")[0])
    [reason] = [reason for reason in explain_message(load.id) if reason.code == "blocked"]
    assert reason.sentence == f"It waits for 1 of 2 message(s): message {b.id}, which is leased."
    assert reason.facts == {"messages": [b.id], "left": 1, "total": 2, "lost": 0, "on_dead": "cancel"}
    [reason] = [reason for reason in explain_message(last.id) if reason.code == "blocked"]
    assert f"message {load.id}, which is blocked" in reason.sentence
    assert "due" not in [reason.code for reason in explain_message(load.id)]


def test_a_drain_with_scheduled_leaves_what_is_blocked():
    a = enqueue("a")
    dead_letter(take("a"), reason="no")
    load = enqueue("load", after=[a], on_dead="wait")
    assert drain(with_scheduled=True).handled == ()
    assert sql("SELECT waits_for FROM pgqueue_message WHERE id = %s", load.id) == [(-2,)]


def test_a_lost_lease_reads_no_results():
    a = enqueue("a")
    enqueue("load", after=[a])
    complete(take("a"))
    [delivery] = take("load")
    complete(delivery)
    with pytest.raises(LeaseLost):
        results_of(delivery)


def test_the_check_finds_a_message_that_waits_for_nothing():
    a = enqueue("a")
    load = enqueue("load", after=[a])
    assert sql("SELECT * FROM pgqueue_batch_check()") == []
    sql("DELETE FROM pgqueue_message WHERE id = %s", a.id)
    assert sql("SELECT id, problem FROM pgqueue_batch_check()") == [(-load.id, "endless")]


def test_nobody_adds_members_to_a_message_that_waits():
    a = enqueue("a")
    load = enqueue("load", after=[a])
    with refused(InvalidMessage, match="is over"):
        Batch.of_id(-load.id).add(NewMessage(handler="b"))


def test_a_project_without_the_app_hears_what_to_install(settings: Any):
    settings.INSTALLED_APPS = [name for name in settings.INSTALLED_APPS if name != "django_pgqueue.flow"]
    with pytest.raises(ImproperlyConfigured, match=r'add "django_pgqueue.flow" to INSTALLED_APPS'):
        enqueue("load", after=[])
