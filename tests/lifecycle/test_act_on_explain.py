"""Explain is right: what holds messages up is named, and when all that is named is gone, they are delivered.

So it is for a message, for a channel, and, in their figures, for shared limits and for queues.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from django_pgqueue import (
    Constant,
    NewMessage,
    breaker_close,
    breaker_open,
    channel_pause,
    channel_resume,
    channel_set,
    complete,
    dequeue,
    enqueue,
    enqueue_many,
    explain_channel,
    handler_pause,
    limit_pause,
    limit_set,
    queue_pause,
    queue_resume,
    queue_set,
    retry,
)
from django_pgqueue.exceptions import ChannelFull
from django_pgqueue.lifecycle.figures import limit_health
from django_pgqueue.models import Message, Worker
from tests.lifecycle.acting import CERTAIN, CHANNELS, HANDLERS, LONG, World, actions
from tests.support.cases import cases
from tests.support.moments import expire, pass_time
from tests.support.refusals import refused
from tests.support.sql import sql
from tests.support.workers import make_worker

# PGQUEUE_MODEL=60 tries sixty times as many states, 0.1 a tenth.
TIMES = float(os.environ.get("PGQUEUE_MODEL", "1"))
Case = list[tuple[str, object]]


def message_by_message(world: World) -> None:
    for message in Message.objects.filter(status__in=(1, 3)).values_list("id", flat=True):
        note(f"message {message}")
        with transaction.atomic():
            world.serve(message)
            transaction.set_rollback(True)


def channel_by_channel(world: World) -> None:
    for channel in CHANNELS:
        with transaction.atomic():
            world.empty(channel)
            transaction.set_rollback(True)


def limit_by_limit(world: World) -> None:
    """What other than limits holds messages up is gone before."""
    for name in CHANNELS:
        channel_set(channel=name, release_interval=None)
        channel_resume(channel=name)
    for name in HANDLERS:
        breaker_close(name)
    queue_set(max_share=None, fairness="turns")
    if not any(use.kind == "queue" for use in limit_health()):
        queue_resume()
    world.open_limits()


WAYS = [message_by_message, channel_by_channel, limit_by_limit]


def act_in(case: Case, way: Callable[[World], None]) -> None:
    with transaction.atomic():
        world = World(say=note)
        for action, how in case:
            world.do(action, how)
        way(world)
        transaction.set_rollback(True)


def two(channel: str = "default", **how: Any) -> None:
    enqueue_many(NewMessage(handler="mail", channel=channel, limits=["stripe", "own"], **how) for _ in range(2))


def one_fails() -> None:
    retry(dequeue(), errors=[{"type": "E"}], delays=[LONG])


# A reason, the channel that gets it, and what makes it. One message at least waits afterwards.
OBSTACLES: list[tuple[str, str, Callable[[], Any]]] = [
    ("queue_paused", "default", lambda: (two(), queue_pause("default"))),
    ("channel_paused", "default", lambda: (two(), channel_pause(channel="default"))),
    ("no_worker", "default", lambda: (two(), Worker.objects.all().delete())),
    ("workers_paused", "default", lambda: (two(), Worker.objects.update(paused_at=timezone.now()))),
    ("workers_busy", "default", lambda: (two(), Worker.objects.update(running=[{"id": 1}, {"id": 2}]))),
    ("queue_concurrency", "default", lambda: (two(), queue_set(max_concurrency=1), dequeue())),
    ("queue_rate", "default", lambda: (two(), queue_set(rate="1/10m"), dequeue())),
    ("max_share", "default", lambda: (two(), queue_set(max_share=0.5), dequeue())),
    ("share", "default", lambda: (two(), queue_set(fairness="share"), dequeue(), two("acme"))),
    ("concurrency", "default", lambda: (two(), channel_set(channel="default", max_concurrency=1), dequeue())),
    ("concurrency", "default", lambda: (
        two(), channel_set(channel="default", max_concurrency=1), expire(*dequeue(lease=LONG)))),
    ("concurrency", "strict", lambda: (two("strict", backoff=Constant(timedelta(0))), dequeue())),
    ("rate", "default", lambda: (two(), channel_set(channel="default", release_interval=LONG), dequeue())),
    ("ordered", "strict", lambda: (two("strict"), one_fails())),
    ("shared_limit_paused", "strict", lambda: (two("strict"), limit_pause("stripe"))),
    ("waits_for_order_key", "default", lambda: (two(order_key="k"), dequeue())),
    ("waits_for_order_key", "default", lambda: (two(order_key="k"), one_fails())),
    ("shared_limit_paused", "default", lambda: (two(), limit_pause("stripe"))),
    ("shared_limit_paused", "default", lambda: (two(), limit_pause("own"))),
    ("shared_limit_paused", "default", lambda: (two(), handler_pause("mail"))),
    ("shared_limit_full", "default", lambda: (two(), limit_set("stripe", max_concurrency=1), dequeue())),
    ("shared_limit_full", "default", lambda: (two(), limit_set("own", max_concurrency=1), dequeue())),
    ("shared_limit_full", "default", lambda: (two(), limit_set("stripe", max_cost=1), dequeue())),
    ("shared_limit_rate", "default", lambda: (two(), limit_set("stripe", release_interval=LONG), dequeue())),
    ("shared_limit_rate", "default", lambda: (two(), limit_set("own", release_interval=LONG), dequeue())),
    ("breaker_open", "default", lambda: (two(), breaker_open("mail"))),
    ("breaker_tries", "default", lambda: (two(), breaker_open("mail"), pass_time(minutes=70), dequeue(limit=2))),
    ("empty", "default", lambda: two(delay=LONG)),
    ("empty", "default", lambda: (enqueue("mail"), one_fails())),
    ("arriving", "default", lambda: enqueue("mail")),
]  # fmt: skip
# They say more, and hold nothing up; or they follow from another one that is named.
FURTHER = {"in_line", "in_channel", "failed_before", "empty", "waits_for_limit", "no_maintenance", "ordered"}


@pytest.mark.django_db
@cases("code, channel, make", OBSTACLES)
def test_a_channel_is_served_when_the_reason_that_explain_gives_is_gone(
    code: str, channel: str, make: Callable[[], Any]
) -> None:
    world = World()
    make_worker("host-1")
    make()
    if code in CERTAIN:
        delivers_nothing()
    if code != "arriving":
        sql("SELECT pgqueue_tick()")
    reasons = explain_channel(channel=channel)
    assert {reason.code for reason in reasons} - FURTHER <= {code}, reasons
    [reason] = [reason for reason in reasons if reason.code == code]
    assert world.remove(reason, channel) or code == "arriving"
    is_served(channel)


def delivers_nothing() -> None:
    """A dequeue takes back leases that have expired: then nothing is certain."""
    if not Message.objects.filter(status=2, lease_expires_at__lte=timezone.now()).exists():
        assert dequeue(limit=10) == []


def is_served(channel: str) -> None:
    """By the next calls, or the next tick."""
    for _ in range(3):
        if channel in [delivery.channel for delivery in dequeue(limit=10)]:
            return
        sql("SELECT pgqueue_tick()")
    raise AssertionError(f"nothing is delivered: {explain_channel(channel=channel)}")


LIMITED: list[tuple[str, str, str, Callable[[], Any]]] = [
    ("shared", "stripe", "paused", lambda: limit_pause("stripe")),
    ("shared", "stripe", "full", lambda: (limit_set("stripe", max_concurrency=1), dequeue())),
    ("shared", "stripe", "full", lambda: (limit_set("stripe", max_cost=1), dequeue())),
    ("shared", "stripe", "rate", lambda: (limit_set("stripe", release_interval=LONG), dequeue())),
    ("shared", "own", "paused", lambda: limit_pause("own")),
    ("shared", "own", "full", lambda: (limit_set("own", max_concurrency=1), dequeue())),
    ("shared", "own", "rate", lambda: (limit_set("own", release_interval=LONG), dequeue())),
    ("shared", "handler mail", "paused", lambda: handler_pause("mail")),
    ("queue", "default", "paused", lambda: (queue_set(max_concurrency=9), queue_pause("default"))),
    ("queue", "default", "full", lambda: (queue_set(max_concurrency=1), dequeue())),
    ("queue", "default", "rate", lambda: (queue_set(rate="1/10m"), dequeue())),
]


@pytest.mark.django_db
@cases("kind, name, why, make", LIMITED)
def test_a_limit_lets_a_message_run_when_the_reason_that_its_figures_give_is_gone(
    kind: str, name: str, why: str, make: Callable[[], Any]
) -> None:
    world = World()
    two()
    make()
    delivers_nothing()
    [use] = [use for use in limit_health() if (use.kind, use.name) == (kind, name)]
    assert (use.why, use.waiting > 0) == (why, True)
    assert [use.name for use in limit_health() if use.why] == [name], "no other one is to blame"
    world.open(use)
    is_served("default")


@pytest.mark.django_db
def test_a_channel_that_is_full_takes_messages_again_when_one_is_settled() -> None:
    channel_set(channel="default", max_size=1)
    enqueue("mail")
    with refused(ChannelFull):
        enqueue("mail")
    assert "full" in [reason.code for reason in explain_channel(channel="default")]
    complete(dequeue())
    assert "full" not in [reason.code for reason in explain_channel(channel="default")]
    enqueue("mail")


def states(examples: int) -> settings:
    """Return the settings for so many states, the same ones each time. A failure is not shrunk: that takes long."""
    return settings(
        max_examples=max(int(examples * TIMES), 1), deadline=None, database=None, derandomize=True,
        phases=[Phase.generate], report_multiple_bugs=False, suppress_health_check=list(HealthCheck),
    )  # fmt: skip


@pytest.mark.django_db
@pytest.mark.parametrize("way", WAYS)
@states(12)
@given(case=st.lists(actions, min_size=8, max_size=20))
def test_what_explain_names_is_all_that_holds_messages_up(case: Case, way: Callable[[World], None]) -> None:
    act_in(case, way)


@pytest.mark.slow
@pytest.mark.django_db
@pytest.mark.parametrize("way", WAYS)
@states(150)
@given(case=st.lists(actions, min_size=20, max_size=40))
def test_what_explain_names_is_all_that_holds_messages_up_in_long_cases(
    case: Case, way: Callable[[World], None]
) -> None:
    act_in(case, way)
