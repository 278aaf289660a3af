from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from django_pgqueue import (
    channel_pause,
    channel_purge,
    channel_release,
    channel_set,
    complete,
    defer,
    dequeue,
    enqueue,
    retry,
)
from django_pgqueue.exceptions import ChannelReleased
from django_pgqueue.lifecycle.upkeep import sweep
from django_pgqueue.models import Channel
from tests.support.messages import enqueue_numbered
from tests.support.moments import pass_time
from tests.support.refusals import refused
from tests.support.sessions import Connect
from tests.support.sql import sql
from tests.support.waiting import eventually

pytestmark = pytest.mark.django_db


def test_a_released_channel_takes_no_new_messages():
    channel_release(channel="default")
    with refused(ChannelReleased, "released"):
        enqueue("h")


@pytest.mark.parametrize(
    "limits",
    [
        {"max_concurrency": 1},
        {"release_interval": timedelta(hours=1)},
        {"max_concurrency": 2, "release_interval": timedelta(hours=1)},
    ],
    ids=str,
)
def test_messages_of_a_released_channel_drain_without_limits(limits: dict[str, object]):
    channel_set(channel="default", **limits)
    enqueue_numbered(6)
    taken = dequeue(limit=10)
    assert len(taken) < 6
    assert dequeue(limit=10) == []
    channel_release(channel="default")
    taken += dequeue(limit=10)
    assert [delivery.payload for delivery in taken] == list(range(6))


def test_a_pause_does_not_stop_it_from_draining():
    enqueue_numbered(2)
    channel_pause(channel="default")
    assert dequeue(limit=10) == []
    channel_release(channel="default")
    assert len(dequeue(limit=10)) == 2


def test_scheduled_deferred_and_retried_messages_drain_too():
    enqueue_numbered(1, delay=timedelta(hours=1))
    enqueue_numbered(2)
    one, two = dequeue(limit=2)
    channel_release(channel="default")
    defer(one, delay=timedelta(minutes=1))
    retry(two, errors=[{}], delays=[timedelta(minutes=1)])
    pass_time(hours=1)
    assert len(dequeue(limit=10)) == 3


# The name is used again.


def test_the_name_of_an_empty_one_is_free_for_a_channel_that_has_nothing_of_it():
    old = channel_set(
        channel="default", max_concurrency=1, max_size=3, full_policy="drop", release_interval=timedelta(hours=1),
        release_burst=2, weight=7,
    )  # fmt: skip
    Channel.objects.filter(pk=old).update(context={"schema": "old"})
    enqueue_numbered(1)
    complete(dequeue())
    channel_pause(channel="default", reason="they do not pay", until=datetime.now(UTC) + timedelta(days=1))
    channel_release(channel="default")

    new = channel_set(channel="default", weight=2)

    assert new != old
    plain = channel_set(channel="plain", weight=2)
    kept = [field.name for field in Channel._meta.fields if field.name not in ("id", "name", "created_at")]
    assert Channel.objects.values(*kept).get(pk=new) == Channel.objects.values(*kept).get(pk=plain)
    enqueue_numbered(4)
    taken = dequeue(limit=10)
    assert [delivery.payload for delivery in taken] == list(range(4)), "no rate and no limit is left"
    assert taken[0].context == {}


@pytest.mark.parametrize("state", ["ready", "leased", "scheduled"])
def test_the_name_of_one_that_still_drains_is_refused(state: str):
    enqueue("h", delay=timedelta(hours=1) if state == "scheduled" else None)
    taken = dequeue() if state == "leased" else []
    before = Channel.objects.values().get()
    channel_release(channel="default")
    with refused(ChannelReleased, r'channel "default" of queue "default" was released and still drains 1 message'):
        channel_set(channel="default", weight=2)
    assert Channel.objects.get().weight == before["weight"]
    complete(taken)
    channel_purge(channel="default")
    assert channel_set(channel="default", weight=2) != before["id"]


@pytest.mark.django_db(transaction=True)
def test_a_message_of_an_open_transaction_keeps_the_context_of_its_released_channel(connect: Connect):
    old = channel_set(channel="acme")
    Channel.objects.filter(pk=old).update(context={"schema": "old"})
    slow = connect()
    slow.execute("SELECT pgqueue_enqueue('late', p_channel => 'acme')")
    channel_release(channel="acme")
    new = channel_set(channel="acme")
    Channel.objects.filter(pk=new).update(context={"schema": "new"})
    enqueue("h", channel="acme")
    slow.commit()

    taken = {delivery.handler: delivery for delivery in dequeue(limit=10)}
    assert {name: delivery.context["schema"] for name, delivery in taken.items()} == {"late": "old", "h": "new"}
    assert taken["late"].channel == f"acme (released {old})"
    complete(list(taken.values()))
    eventually_removed(old)


# It goes.


def eventually_removed(channel: int) -> None:
    """Wait until the channel is removed: other transactions of this server, such as an analyze, may delay that."""

    def is_gone() -> bool:
        if Channel.objects.filter(pk=channel).exists():
            sweep()
            return False
        return True

    eventually(is_gone, seconds=60, every=0, problem="it never goes")


@pytest.mark.django_db(transaction=True)
def test_an_empty_one_goes_at_once():
    eventually_removed(release(channel_set(channel="acme", max_concurrency=1)))
    full = channel_set(channel="full")
    enqueue("h", channel="full")
    release(full)
    sweep()
    assert Channel.objects.filter(pk=full).exists()
    complete(dequeue())
    eventually_removed(full)
    channels = "SELECT FROM pgqueue_channel AS c WHERE c.id = l.channel_id"
    assert sql(f"SELECT FROM pgqueue_lane AS l WHERE NOT EXISTS ({channels})") == []


def release(number: int) -> int:
    channel_release(channel=Channel.objects.get(pk=number).name)
    return number


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_one_that_an_open_transaction_may_fill_stays_until_that_ends(connect: Connect, ends: str):
    channel = channel_set(channel="acme")
    slow = connect()
    slow.execute("SELECT pgqueue_enqueue('late', p_channel => 'acme')")
    release(channel)
    for _ in range(3):
        sweep()
    assert Channel.objects.filter(pk=channel).exists()
    getattr(slow, ends)()
    for _ in range(3):
        sweep()
    if ends == "commit":
        complete(dequeue())
    eventually_removed(channel)


@pytest.mark.django_db(transaction=True)
def test_a_release_that_is_not_committed_removes_nothing(connect: Connect):
    """A session that enqueues meanwhile cannot see it."""
    channel = channel_set(channel="acme")
    slow = connect()
    slow.execute("SELECT pgqueue_channel_release('default', 'acme')")
    assert slow.execute("SELECT pgqueue_remove_released()").fetchone() == (0,)
    enqueue("h", channel="acme")
    slow.commit()
    sweep()
    assert Channel.objects.filter(pk=channel).exists()
    assert len(dequeue()) == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("again", [False, True], ids=["removed", "used again"])
def test_a_snapshot_of_the_past_cannot_enqueue_to_one_that_has_gone(connect: Connect, again: bool):
    """REPEATABLE READ sees the channel as it was; the message would belong to no channel, or to another tenant's."""
    channel = channel_set(channel="acme")
    past = connect()
    past.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    past.execute("SELECT FROM pgqueue_channel")
    release(channel)
    if again:
        channel_set(channel="acme")
    else:
        eventually_removed(channel)
    with pytest.raises(psycopg.errors.SerializationFailure):
        past.execute("SELECT pgqueue_enqueue('late', p_channel => 'acme')")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("act", ["pgqueue_queue_drop('old')", "pgqueue_channel_release('old', 'c')"])
def test_a_channel_is_not_removed_under_an_enqueue_that_began_while_it_was_released(connect: Connect, act: str):
    channel_set(queue="old", channel="c")
    dropper, slow = connect(), connect()
    dropper.execute(f"SELECT {act}")
    slow.execute("SELECT pgqueue_enqueue('late', p_queue => 'old', p_channel => 'c')")
    dropper.commit()
    sweep()
    slow.commit()
    assert Channel.objects.filter(queue="old").exists()
    assert len(dequeue(queue="old")) == 1
