"""A batch in one session: who is a member, when it is over, and what follows."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction

from django_pgqueue import (
    NewMessage,
    cancel,
    channel_erase,
    channel_purge,
    channel_set,
    complete,
    dead_letter,
    dequeue,
    discard,
    enqueue,
    enqueue_many,
    pop,
    prune,
    redrive,
    sweep,
)
from django_pgqueue.delivery import Delivery
from django_pgqueue.doctor import examine
from django_pgqueue.exceptions import InvalidMessage
from django_pgqueue.flow import Batch, Counts, batch_of
from django_pgqueue.models import Channel, Message
from django_pgqueue.sql import roles
from django_pgqueue.sql.flush import empty_rest
from tests.schema.test_checks import of_database
from tests.support.refusals import refused
from tests.support.sql import sql

pytestmark = pytest.mark.django_db


def take(handler: str = "member", limit: int = 100) -> list[Delivery[Any]]:
    """Lease all messages, which must be of this handler."""
    taken = dequeue(limit=limit)
    assert {delivery.handler for delivery in taken} <= {handler}
    return taken


def followers() -> list[str]:
    """Return the handlers of what waits, of those that follow batches."""
    return list(Message.objects.exclude(handler="member").order_by("id").values_list("handler", flat=True))


def opened(count: int = 2, **options: Any) -> Batch:
    with Batch(on_done="done", on_dead="dead", **options) as batch:
        enqueue_many([NewMessage(handler="member")] * count)
    return batch


def fail_within(block: AbstractContextManager[Any]) -> None:
    with block:
        enqueue("member")
        raise RuntimeError


def test_the_follower_comes_after_the_last_member_and_once():
    batch = opened(2, payload={"report": 7})
    first, second = take()
    complete(first)
    assert (followers(), batch.counts(), batch.finished) == ([], Counts(2, 1, {}), False)
    complete(second)
    assert (followers(), batch.counts(), batch.finished) == (["done"], Counts(2, 0, {}), True)
    assert complete([first, second], skip_lost=True) is not None
    [follower] = take("done")
    assert (follower.payload, follower.headers) == ({"report": 7}, {"batch": batch.id})
    found = batch_of(follower)
    assert found is not None
    assert found.counts().done == 2


def test_all_members_in_one_call():
    opened(50)
    complete(take())
    assert followers() == ["done"]


def test_any_insert_in_the_block_is_a_member_and_none_after_it():
    channel = Channel.objects.get(queue="default", name="default")
    with Batch(on_done="done") as batch:
        enqueue("member")
        Message.objects.create(channel=channel, handler="member")
        sql("INSERT INTO pgqueue_message (channel_id, handler) VALUES (%s, 'member')", channel.pk)
    enqueue("member")
    assert list(Message.objects.order_by("id").values_list("flow", flat=True)) == [batch.id] * 3 + [None]
    taken = take()
    assert batch_of(taken[1]).id == batch.id
    assert batch_of(taken[3]) is None
    complete(taken[:3])
    assert followers() == ["done"]


def test_an_empty_batch_is_over_at_once():
    assert opened(0).finished
    assert followers() == ["done"]


def test_a_duplicate_is_no_member():
    enqueue("member", dedupe_key="a")
    with Batch(on_done="done") as batch:
        assert enqueue("member", dedupe_key="a").outcome == "duplicate"
    assert batch.counts() == Counts(0, 0, {})
    assert followers() == ["done"]


def test_a_batch_without_followers_ends_too():
    with Batch() as batch:
        enqueue("member")
    complete(take())
    assert batch.finished
    assert followers() == []


def test_an_opener_that_rolls_back_leaves_nothing():
    with pytest.raises(RuntimeError):
        fail_within(Batch(on_done="done"))
    assert sql("SELECT count(*) FROM pgqueue_batch") == [(0,)]
    assert sql("SELECT count(*) FROM pgqueue_batch_member") == [(0,)]
    enqueue("member")
    assert Message.objects.get().flow is None


def test_a_member_enqueued_in_a_savepoint_that_is_rolled_back_is_none():
    with Batch(on_done="done") as batch:
        enqueue("member")
        with pytest.raises(RuntimeError):
            fail_within(transaction.atomic())
    assert batch.counts() == Counts(1, 1, {})


def die(delivery: Delivery[Any]) -> None:
    dead_letter(delivery, reason="rejected")


LOSSES = {
    "dead": (die, "dead"),
    "discarded": (lambda delivery: discard(delivery.id), "dead"),
    "cancelled": (lambda delivery: cancel(later()), "cancelled"),
    "purged": (lambda delivery: channel_purge(channel="later"), "purged"),
}


def later() -> int:
    return Message.objects.get(channel__name="later").pk


@pytest.mark.parametrize("how", LOSSES)
def test_a_member_that_is_lost_counts_and_the_other_follower_comes(how: str):
    lose, outcome = LOSSES[how]
    channel_set(channel="later")
    of_this = "later" if outcome in ("cancelled", "purged") else "default"
    with Batch(on_done="done", on_dead="dead") as batch:
        enqueue("member")
        enqueue("member", channel=of_this, delay=None if of_this == "default" else timedelta(hours=1))
    taken = take()
    lose(taken[-1])
    assert followers() == []
    complete(taken[0])
    assert followers() == ["dead"]
    assert batch.counts() == Counts(2, 0, {outcome: 1})
    assert batch.counts().done == 1


def test_members_of_a_tenant_that_is_erased():
    channel_set(channel="tenant")
    with Batch(on_done="done", on_dead="dead") as batch:
        enqueue_many([NewMessage(handler="member", channel="tenant")] * 3)
    channel_erase(queue="default", channel="tenant")
    assert batch.counts() == Counts(3, 0, {"erased": 3})
    assert followers() == ["dead"]


def test_members_that_are_dropped_from_a_full_channel():
    channel_set(channel="small", max_size=2, full_policy="drop_oldest")
    with Batch(on_done="done", on_dead="dead") as batch:
        for _ in range(4):
            enqueue("member", channel="small")
    assert batch.counts() == Counts(4, 2, {"dropped": 2})
    complete(take())
    assert followers() == ["dead"]


def test_a_popped_member_is_done():
    batch = opened(2)
    assert len(pop(limit=2)) == 2
    assert batch.counts() == Counts(2, 0, {})
    assert followers() == ["done"]


def test_a_redrive_makes_a_message_that_is_no_member():
    batch = opened(1)
    [member] = take()
    die(member)
    assert followers() == ["dead"]
    redrive([member.id])
    complete([delivery for delivery in dequeue(limit=9) if delivery.handler == "member"])
    assert followers() == ["dead"]
    assert batch.counts() == Counts(1, 0, {"dead": 1})


def test_members_add_members_until_the_batch_is_over():
    opened(1)
    [member] = take()
    batch = batch_of(member)
    [answer] = batch.add(NewMessage(handler="member"))
    complete(member)
    assert (followers(), batch.counts()) == ([], Counts(2, 1, {}))
    [added] = take()
    assert added.id == answer.id
    complete(added)
    assert followers() == ["done"]
    with refused(InvalidMessage, match="is over"):
        batch.add(NewMessage(handler="member"))
    enqueue("member")
    assert Message.objects.get(handler="member").flow is None


def test_a_nested_batch_and_what_follows_it_are_parts_of_the_outer_one():
    with Batch(on_done="outer") as outer:
        enqueue("member")
        with Batch(on_done="inner") as inner:
            enqueue("member")
        enqueue("member")
    assert outer.counts() == Counts(3, 3, {})
    complete(take())
    assert (followers(), inner.finished, outer.finished) == (["inner"], True, False)
    complete(take("inner"))
    assert followers() == ["outer"]


def test_an_inner_batch_that_lost_a_member_is_lost_to_the_outer_one():
    with Batch(on_done="done", on_dead="dead") as outer, Batch():
        enqueue("member")
    die(take()[0])
    assert followers() == ["dead"]
    assert outer.counts() == Counts(1, 0, {"dead": 1})


def test_members_of_two_batches_in_one_call():
    first, second = opened(2), opened(3)
    complete(take())
    assert first.finished
    assert second.finished
    assert followers() == ["done", "done"]


def test_a_follower_with_options():
    channel_set(channel="reports")
    with Batch(on_done=NewMessage(handler="done", payload=[1], channel="reports", priority=7, body=b"\x00x")):
        pass
    [follower] = take("done")
    assert (follower.payload, follower.channel, follower.priority, follower.body) == ([1], "reports", 7, b"\x00x")


def test_a_follower_that_is_refused_is_kept_with_the_batch():
    with Batch(on_done=NewMessage(handler="done", channel="nowhere")) as batch:
        pass
    assert batch.finished
    assert followers() == []
    [(id, problem, refusal)] = sql("SELECT * FROM pgqueue_batch_check()")  # noqa: A001
    assert (id, problem) == (batch.id, "refused")
    assert "nowhere" in str(refusal)
    sweep()
    assert followers() == []


def test_a_follower_waits_for_room_in_its_channel():
    channel_set(channel="small", max_size=1)
    enqueue("member", channel="small")
    with Batch(on_done="outer") as outer, Batch(on_done=NewMessage(handler="done", channel="small")) as batch:
        pass
    sweep()
    assert not batch.finished
    assert followers() == []
    assert [row[:2] for row in sql("SELECT * FROM pgqueue_batch_check()")] == [(batch.id, "full")]
    pop()
    sweep()
    assert batch.finished
    assert followers() == ["done"]
    assert sql("SELECT * FROM pgqueue_batch_check()") == []
    pop()
    assert outer.finished
    sweep()
    assert sql("SELECT count(*) FROM pgqueue_batch_unsure") == [(0,)]


def test_a_delayed_follower_is_refused():
    with refused(InvalidMessage), Batch(on_done=NewMessage(handler="done", delay=timedelta(1))):
        pass


def test_pruning_leaves_what_is_not_over(settings: Any):
    over, open_ = opened(2), opened(1)
    first, second, _ = take()
    die(first)
    complete(second)
    assert over.counts() == Counts(2, 0, {"dead": 1})
    prune()
    assert over.finished
    settings.DJANGO_PGQUEUE = {"ARCHIVE_RETENTION": timedelta(0)}
    prune()
    assert sql("SELECT id FROM pgqueue_batch") == [(open_.id,)]
    assert sql("SELECT count(*) FROM pgqueue_batch_lost") == [(0,)]
    with pytest.raises(LookupError):
        over.counts()


def test_an_erased_tenant_leaves_nothing_in_what_would_have_followed():
    """Neither before nor after: the end of the batch puts nothing into the channel."""
    channel_set(channel="tenant")
    after = NewMessage(handler="done", channel="tenant", payload="secret")
    with Batch(on_done=after, on_dead=after):
        enqueue("member", channel="tenant")
    with Batch(on_done=after, on_dead="dead") as other:
        enqueue("member")
    removed = channel_erase(queue="default", channel="tenant").erased
    assert removed["batch"] == 2
    assert "secret" not in str(sql("SELECT b::text FROM pgqueue_batch AS b"))
    complete(take())
    assert other.finished
    assert followers() == []


def test_an_erase_leaves_what_follows_on_a_channel_of_that_name_in_another_queue():
    for queue in ("default", "other"):
        channel_set(channel="tenant", queue=queue)
    done, dead = (NewMessage(handler="done", channel="tenant", queue=queue) for queue in ("other", "default"))
    with Batch(on_done=done, on_dead=dead):
        enqueue("member")
    assert channel_erase(queue="default", channel="tenant").erased["batch"] == 1
    complete(take())
    assert followers() == ["done"]


def test_what_has_followed_is_forgotten_by_the_batch():
    opened(0)
    assert sql("SELECT on_done, on_dead FROM pgqueue_batch") == [(None, None)]


def test_a_project_without_the_app_hears_what_to_install(settings: Any):
    settings.INSTALLED_APPS = [name for name in settings.INSTALLED_APPS if name != "django_pgqueue.flow"]
    with pytest.raises(ImproperlyConfigured, match=r'add "django_pgqueue.flow" to INSTALLED_APPS'):
        Batch()


def test_a_check_and_the_doctor_say_that_the_app_is_not_migrated():
    assert "pgqueue.W029" not in of_database()
    sql("DELETE FROM django_migrations WHERE app = 'pgqueue_flow'")
    found = of_database()
    assert list(found) == ["pgqueue.W029"]
    assert "1 of 1 migrations of django_pgqueue.flow are not applied" in found["pgqueue.W029"].msg
    assert "manage.py migrate" in found["pgqueue.W029"].hint
    [finding] = [finding for finding in examine(only=["drift"]).findings if finding.code == "not_migrated"]
    assert "django_pgqueue.flow" in finding.problem


def test_flush_empties_the_tables_of_batches():
    opened(1)
    die(take()[0])
    for table in ("message", "dead_letter", "archived_message", "channel"):
        sql(f"DELETE FROM pgqueue_{table}")
    assert empty_rest("default")
    for table in roles.FLOW_TABLES:
        assert sql(f"SELECT count(*) FROM pgqueue_{table}") == [(0,)]


def test_the_check_finds_nothing_to_do():
    opened(1)
    assert sql("SELECT * FROM pgqueue_batch_check()") == []
