"""Explain is right: what holds a message up is named, and when all that is named is gone, the message is delivered."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import datetime, timedelta

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from django_pgqueue import (
    Breaker,
    Delivery,
    breaker_close,
    breaker_open,
    breaker_set,
    channel_pause,
    channel_resume,
    channel_set,
    complete,
    defer,
    dequeue,
    enqueue,
    explain_message,
    handler_pause,
    handler_resume,
    limit_pause,
    limit_resume,
    limit_set,
    queue_pause,
    queue_resume,
    queue_set,
    retry,
    sweep,
)
from django_pgqueue.lifecycle.figures import Reason
from django_pgqueue.models import Message, Worker
from tests.support.moments import a_moment_of_the_database, expire, pass_time
from tests.support.workers import make_worker

# PGQUEUE_MODEL=60 tries sixty times as many states, 0.1 a tenth.
TIMES = float(os.environ.get("PGQUEUE_MODEL", "1"))
LONG = timedelta(minutes=10)
CHANNELS = ("default", "acme", "strict")
HANDLERS = ("mail", "bill")
# Reasons that leave no doubt: as long as one is named, no dequeue delivers the message.
CERTAIN = {
    "scheduled", "queue_paused", "channel_paused", "ordered", "queue_concurrency", "queue_rate", "max_share",
    "concurrency", "rate", "shared_limit_paused", "shared_limit_full", "shared_limit_rate", "breaker_open",
    "waits_for_order_key", "leased",
}  # fmt: skip

channels = st.sampled_from(CHANNELS)
handlers = st.sampled_from(HANDLERS)
few = st.sampled_from([None, 1, 2])
messages = st.tuples(
    channels, handlers, st.sampled_from([(), ("stripe",)]), st.sampled_from([None, "k"]),
    st.sampled_from([timedelta(0), timedelta(0), timedelta(hours=1)]), st.sampled_from([0, 0, 5]),
)  # fmt: skip
actions = st.one_of(
    st.tuples(st.just("enqueue"), messages),
    st.tuples(st.just("enqueue"), messages),
    st.tuples(st.just("lease"), st.integers(1, 3)),
    st.tuples(st.sampled_from(["complete", "retry", "defer", "expire"]), st.integers(0, 3)),
    st.tuples(st.just("queue"), st.fixed_dictionaries({}, optional={
        "max_concurrency": few, "max_share": st.sampled_from([None, 0.5]),
        "rate": st.sampled_from([None, "1/10m"]), "fairness": st.sampled_from(["turns", "share"]),
    })),
    st.tuples(st.just("channel"), st.tuples(channels, st.fixed_dictionaries({}, optional={
        "max_concurrency": few, "release_interval": st.sampled_from([None, LONG]),
    }))),
    st.tuples(st.just("limit"), st.fixed_dictionaries({}, optional={
        "max_concurrency": few, "release_interval": st.sampled_from([None, LONG]),
        "handlers": st.sampled_from([[], ["mail"]]),
    })),
    st.tuples(st.sampled_from(["pause_handler", "open_breaker"]), handlers),
    st.tuples(st.just("pause_channel"), channels),
    st.tuples(st.sampled_from(["pause_queue", "pause_limit", "tick", "worker", "pause_workers", "busy"]), st.none()),
    st.tuples(st.just("time"), st.sampled_from([1, 11, 70])),
)  # fmt: skip


class World:
    """The messages of one case, and what happens to them."""

    def __init__(self) -> None:
        for name in CHANNELS:
            channel_set(channel=name, ordered=name == "strict")
        limit_set("stripe", max_concurrency=3)
        for name in HANDLERS:
            breaker_set(name, Breaker(failures=2, within=timedelta(hours=1), pause=timedelta(hours=1)))
        self.held: list[Delivery] = []

    def leased(self, which: int) -> list[Delivery]:
        """Return one of the messages whose lease is not lost, or none."""
        alive = dict(Message.objects.filter(status=2).values_list("id", "lease_expires_at"))
        self.held = [d for d in self.held if alive.get(d.id, timezone.now()) > timezone.now()]
        return [self.held.pop(which % len(self.held))] if self.held else []

    def do(self, action: str, given: object) -> None:
        """Do one action of a case."""
        match action, given:
            case "enqueue", (channel, handler, limits, key, delay, priority):
                key = None if channel == "strict" else key
                enqueue(handler, channel=channel, limits=limits, order_key=key, delay=delay, priority=priority)
            case "lease", int(limit):
                self.held += dequeue(limit=limit)
            case "complete", int(which):
                complete(self.leased(which))
            case "retry", int(which):
                found = self.leased(which)
                retry(found, errors=[{"type": "E"}] * len(found), delays=[timedelta(minutes=5)] * len(found))
            case "defer", int(which):
                defer(self.leased(which), delay=timedelta(minutes=5))
            case "expire", int(which):
                expire(*self.leased(which))
            case "queue", dict(limits):
                queue_set(**limits)
            case "channel", (str(name), dict(limits)):
                channel_set(channel=name, **limits if name != "strict" else {})
            case "limit", dict(limits):
                limit_set("stripe", **limits)
            case "pause_handler", str(name):
                handler_pause(name)
            case "open_breaker", str(name):
                breaker_open(name)
            case "pause_channel", str(name):
                channel_pause(channel=name)
            case "pause_queue", _:
                queue_pause("default")
            case "pause_limit", _:
                limit_pause("stripe")
            case "tick", _:
                sweep()
            case "worker", _:
                make_worker(f"host-{Worker.objects.count()}")
            case "pause_workers", _:
                Worker.objects.update(paused_at=timezone.now())
            case "busy", _:
                Worker.objects.update(running=[{"id": n, "seconds": 1.0} for n in range(2)])
            case "time", int(minutes):
                pass_time(minutes=minutes)

    def serve(self, message: int, behind: tuple[int, ...] = ()) -> Delivery:
        """Remove what explain names, one reason after the other, until a dequeue delivers the message. Complete the
        messages that are delivered before it."""
        for _ in range(60):
            reasons = explain_message(message)
            note(f"{message}: {[reason.code for reason in reasons]}")
            self.nothing_certain_is_wrong(message, reasons)
            if not any(self.remove(reason, message, behind) for reason in reasons):
                delivered = dequeue(limit=1)
                assert delivered or any(self.is_on_its_way(reason) for reason in reasons), reasons
                for delivery in delivered:
                    if delivery.id == message:
                        return delivery
                    complete(delivery)
        raise AssertionError(f"message {message} is never delivered: {explain_message(message)}")

    def nothing_certain_is_wrong(self, message: int, reasons: Iterable[Reason]) -> None:
        """A dequeue takes back leases that have expired, so they make every reason uncertain."""
        if Message.objects.filter(status=2, lease_expires_at__lte=timezone.now()).exists():
            return
        for reason in reasons:
            itself = reason.code == "ordered" and reason.facts["message"] == message
            if reason.code in CERTAIN and not itself:
                with transaction.atomic():
                    assert message not in [delivery.id for delivery in dequeue(limit=100)], reason
                    transaction.set_rollback(True)
                return

    @staticmethod
    def is_on_its_way(reason: Reason) -> bool:
        """The dequeue has made it ready, or taken what waited for a limit out of the line."""
        return reason.code in ("arriving", "parked", "due", "waits_for_limit", "waits_for_order_key", "in_line")

    def remove(self, reason: Reason, message: int, behind: tuple[int, ...]) -> bool:
        """Act on a reason, as a person would. Returns whether there was something to do."""
        facts = reason.facts
        match reason.code:
            case "scheduled" | "rate" | "queue_rate" | "shared_limit_rate":
                self.wait_until(facts.get("next_at") or facts["dequeue_at"])
            case "lease_expired" | "no_maintenance":
                sweep()
            case "leased":
                self.wait_until(facts["lease_expires_at"])
            case "queue_paused":
                queue_resume(facts["queue"])
            case "channel_paused":
                channel_resume(channel=facts["channel"])
            case "no_worker":
                make_worker(f"host-{Worker.objects.count()}")
            case "workers_paused":
                Worker.objects.update(paused_at=None)
            case "workers_busy":
                Worker.objects.update(running=[])
            case "concurrency" if facts["expired"]:
                sweep()
            case "concurrency" if (name := Message.objects.get(pk=message).channel.name) == "strict":
                live = Message.objects.filter(status=2, channel__name=name).values_list("id", flat=True)
                complete([delivery for delivery in self.held if delivery.id in live])
            case "concurrency":
                channel_set(channel=name, max_concurrency=facts["running"] + 1)
            case "queue_concurrency":
                queue_set(max_concurrency=facts["running"] + 1)
            case "max_share":
                queue_set(max_share=None)
            case "share":
                queue_set(fairness="turns")
            case "shared_limit_paused" if facts["limit"].startswith("handler "):
                handler_resume(facts["limit"].removeprefix("handler "))
            case "shared_limit_paused":
                limit_resume(facts["limit"])
            case "shared_limit_full":
                limit_set(facts["limit"], max_concurrency=facts["max_concurrency"] + 1)
            case "breaker_open" | "breaker_tries":
                breaker_close(facts["handler"])
            case "ordered" if facts["held_until"]:
                self.wait_until(facts["held_until"])
            case "ordered" | "waits_for_order_key":
                first = facts["message"]
                if first == message or first in behind:
                    return False
                complete(self.serve(first, (*behind, message)))
            case _:
                return False
        return True

    @staticmethod
    def wait_until(moment: str) -> None:
        left = datetime.fromisoformat(moment) - a_moment_of_the_database()
        pass_time(seconds=max(left.total_seconds(), 0) + 1)


def every_waiting_message_can_be_served(case: list[tuple[str, object]]) -> None:
    with transaction.atomic():
        world = World()
        for action, how in case:
            world.do(action, how)
        for message in Message.objects.filter(status__in=(1, 3)).values_list("id", flat=True):
            note(f"message {message}")
            with transaction.atomic():
                world.serve(message)
                transaction.set_rollback(True)
        transaction.set_rollback(True)


def states(examples: int) -> settings:
    """Return the settings for so many states, the same ones each time. A failure is not shrunk: that takes long."""
    return settings(
        max_examples=max(int(examples * TIMES), 1), deadline=None, database=None, derandomize=True,
        phases=[Phase.generate], report_multiple_bugs=False, suppress_health_check=list(HealthCheck),
    )  # fmt: skip


@pytest.mark.django_db
@states(12)
@given(case=st.lists(actions, min_size=8, max_size=20))
def test_what_explain_names_is_all_that_holds_a_message_up(case: list[tuple[str, object]]) -> None:
    every_waiting_message_can_be_served(case)


@pytest.mark.slow
@pytest.mark.django_db
@states(150)
@given(case=st.lists(actions, min_size=20, max_size=40))
def test_what_explain_names_is_all_that_holds_a_message_up_in_long_cases(case: list[tuple[str, object]]) -> None:
    every_waiting_message_can_be_served(case)
