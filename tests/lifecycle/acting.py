"""A world of messages in any state, and a person who acts on what explain and the figures of limits say."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone
from hypothesis import strategies as st

from django_pgqueue import (
    Breaker,
    Delivery,
    breaker_close,
    breaker_open,
    breaker_set,
    cancel,
    channel_pause,
    channel_resume,
    channel_set,
    complete,
    defer,
    dequeue,
    enqueue,
    explain_channel,
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
from django_pgqueue.lifecycle.figures import LimitHealth, Reason, limit_health
from django_pgqueue.models import Message, SharedLimit, Worker
from tests.support.moments import a_moment_of_the_database, expire, pass_time
from tests.support.workers import make_worker

LONG = timedelta(minutes=10)
CHANNELS = ("default", "acme", "strict")
HANDLERS = ("mail", "bill")
LIMITS = ("stripe", "bank", "own")
# Reasons that leave no doubt: as long as one is named, no dequeue delivers the message, or one of the channel.
CERTAIN_OF_CHANNEL = {
    "queue_paused", "channel_paused", "ordered", "queue_concurrency", "queue_rate", "max_share", "concurrency", "rate",
}  # fmt: skip
CERTAIN = CERTAIN_OF_CHANNEL | {
    "scheduled", "shared_limit_paused", "shared_limit_full", "shared_limit_rate", "breaker_open", "waits_for_order_key",
    "leased",
}  # fmt: skip

ON_ITS_WAY = {"arriving", "parked", "due", "empty", "in_line", "waits_for_limit", "waits_for_order_key"}

channels = st.sampled_from(CHANNELS)
handlers = st.sampled_from(HANDLERS)
limits = st.sampled_from(LIMITS)
few = st.sampled_from([None, 1, 2])
messages = st.tuples(
    channels, handlers, st.sampled_from([(), (), ("stripe",), ("stripe", "bank"), ("own",)]),
    st.sampled_from([None, "k"]),
    st.sampled_from([timedelta(0), timedelta(0), timedelta(hours=1)]), st.sampled_from([0, 0, 5]),
)  # fmt: skip
actions = st.one_of(
    st.tuples(st.just("enqueue"), messages),
    st.tuples(st.just("enqueue"), messages),
    st.tuples(st.just("lease"), st.integers(1, 3)),
    st.tuples(st.sampled_from(["complete", "retry", "defer", "expire", "cancel"]), st.integers(0, 3)),
    st.tuples(st.just("queue"), st.fixed_dictionaries({}, optional={
        "max_concurrency": few, "max_share": st.sampled_from([None, 0.5]),
        "rate": st.sampled_from([None, "1/10m"]), "fairness": st.sampled_from(["turns", "share"]),
    })),
    st.tuples(st.just("channel"), st.tuples(channels, st.fixed_dictionaries({}, optional={
        "max_concurrency": few, "release_interval": st.sampled_from([None, LONG]),
    }))),
    st.tuples(st.just("limit"), st.tuples(limits, st.fixed_dictionaries({}, optional={
        "max_concurrency": few, "release_interval": st.sampled_from([None, LONG]),
        "handlers": st.sampled_from([[], ["mail"]]),
    }))),
    st.tuples(st.sampled_from(["pause_handler", "open_breaker"]), handlers),
    st.tuples(st.just("pause_channel"), channels),
    st.tuples(st.just("pause_limit"), limits),
    st.tuples(st.sampled_from(["pause_queue", "tick", "worker", "pause_workers", "busy"]), st.none()),
    st.tuples(st.just("time"), st.sampled_from([1, 11, 70])),
)  # fmt: skip


class World:
    """The messages of one case, and what happens to them. ``say``: gets what is tried, for a failure."""

    def __init__(self, say: Callable[[str], object] = print) -> None:
        self.say = say
        for name in CHANNELS:
            channel_set(channel=name, ordered=name == "strict")
        for name in LIMITS:
            limit_set(name, max_concurrency=3, per="channel" if name == "own" else None)
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
            case "cancel", int(which):
                waiting = Message.objects.filter(status__in=(1, 3)).order_by("id").values_list("id", flat=True)
                cancel(waiting[which : which + 1])
            case "queue", dict(limits):
                queue_set(**limits)
            case "channel", (str(name), dict(limits)):
                channel_set(channel=name, **limits if name != "strict" else {})
            case "limit", (str(name), dict(limits)):
                limit_set(name, **limits)
            case "pause_handler", str(name):
                handler_pause(name)
            case "open_breaker", str(name):
                breaker_open(name)
            case "pause_channel", str(name):
                channel_pause(channel=name)
            case "pause_queue", _:
                queue_pause("default")
            case "pause_limit", str(name):
                limit_pause(name)
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
        channel = Message.objects.get(pk=message).channel.name
        for _ in range(60):
            for delivery in self.act(explain_message(message), channel, {message}, (*behind, message)):
                if delivery.id == message:
                    return delivery
                complete(delivery)
        raise AssertionError(f"message {message} is never delivered: {explain_message(message)}")

    def empty(self, channel: str) -> None:
        """Remove what explain names of the channel, one reason after the other, until dequeues have delivered all that
        waits in it. Complete all that is delivered."""
        waiting = Message.objects.filter(status__in=(1, 3), channel__name=channel)
        for _ in range(200):
            left = set(waiting.values_list("id", flat=True))
            if not left:
                return
            complete(self.act(explain_channel(channel=channel), channel, left))
        raise AssertionError(f"channel {channel} is never empty: {explain_channel(channel=channel)}")

    def act(
        self, reasons: list[Reason], channel: str, waiting: set[int], behind: tuple[int, ...] = ()
    ) -> list[Delivery]:
        """Remove the first reason that can be removed. If there is none, return what a dequeue delivers."""
        self.say(f"{channel} {min(waiting)}: {[reason.code for reason in reasons]}")
        certain = CERTAIN if behind else CERTAIN_OF_CHANNEL
        for reason in reasons:
            if reason.code in certain and not (reason.code == "ordered" and reason.facts["message"] in behind):
                self.none_is_delivered(waiting, reason)
        if any(self.remove(reason, channel, behind) for reason in reasons):
            return []
        delivered = dequeue(limit=1)
        assert delivered or any(self.is_on_its_way(reason) for reason in reasons), reasons
        return delivered

    @staticmethod
    def none_is_delivered(messages: set[int], reason: object) -> None:
        """A dequeue takes back leases that have expired, so they make every reason uncertain."""
        if Message.objects.filter(status=2, lease_expires_at__lte=timezone.now()).exists():
            return
        with transaction.atomic():
            assert not messages.intersection(delivery.id for delivery in dequeue(limit=100)), reason
            transaction.set_rollback(True)

    def open_limits(self) -> None:
        """Remove what the figures of limits name, one limit after the other, until no message waits for any."""
        for _ in range(200):
            uses = [use for use in limit_health() if use.waiting]
            self.say(f"{[(use.kind, use.name, use.why, use.waiting) for use in uses]}")
            if not uses:
                return
            shut = next((use for use in uses if use.why), None)
            if shut:
                held = Message.objects.filter(status__in=(1, 3))
                if shut.kind == "shared":
                    held = held.filter(waits_for__in=SharedLimit.objects.filter(name=shut.name).values("id"))
                self.none_is_delivered(set(held.values_list("id", flat=True)), shut)
                self.open(shut)
            else:
                sweep()
                delivered = dequeue(limit=1)
                self.held += delivered
                assert delivered or any(use.why for use in limit_health()), f"all have room, and nothing runs: {uses}"
        raise AssertionError(f"some limits never open: {limit_health()}")

    def open(self, use: LimitHealth) -> None:
        """Act on what the figures say of a limit, as a person would."""
        change: Callable[..., object] = queue_set if use.kind == "queue" else limit_set
        match use.why:
            case "paused":
                (queue_resume if use.kind == "queue" else limit_resume)(use.name)
            case "full" if use.max_cost is not None and (use.cost or 0) >= use.max_cost:
                change(use.name, max_cost=(use.cost or 0) + 1)
            case "full":
                change(use.name, max_concurrency=(use.max_concurrency if use.places is None else use.places) + 1)
            case "rate":
                pass_time(seconds=((1 - (use.tokens or 0)) * LONG).total_seconds() + 1)

    @staticmethod
    def is_on_its_way(reason: Reason) -> bool:
        """The dequeue has made it ready, or taken what waited for a limit out of the line."""
        return reason.code in ON_ITS_WAY

    def remove(self, reason: Reason, channel: str, behind: tuple[int, ...] = ()) -> bool:
        """Act on a reason, as a person would. Returns whether there was something to do.

        ``behind``: messages that are to be delivered after the one that the reason names.
        """
        facts = reason.facts
        match reason.code:
            case "empty":
                if facts["dequeue_at"] is None or self.is_over(facts["dequeue_at"]):
                    return False
                self.wait_until(facts["dequeue_at"])
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
            case "concurrency" if channel == "strict":  # it stays 1
                live = Message.objects.filter(status=2, channel__name=channel).values_list("id", flat=True)
                known = [delivery for delivery in self.held if delivery.id in live]
                complete(known) if known else pass_time(seconds=20)
            case "concurrency":
                channel_set(channel=channel, max_concurrency=facts["running"] + 1)
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
            case "shared_limit_full" if facts["free_cost"] == 0:
                limit_set(facts["limit"], max_cost=facts["max_cost"] + 1)
            case "shared_limit_full":
                limit_set(facts["limit"], max_concurrency=facts["max_concurrency"] + 1)
            case "breaker_open" | "breaker_tries":
                breaker_close(facts["handler"])
            case "ordered" if facts["held_until"]:
                self.wait_until(facts["held_until"])
            case "ordered" | "waits_for_order_key":
                first = facts["message"]
                if first in behind:
                    return False
                complete(self.serve(first, behind))
            case _:
                return False
        return True

    @staticmethod
    def is_over(moment: str) -> bool:
        return bool(datetime.fromisoformat(moment) <= a_moment_of_the_database())

    @staticmethod
    def wait_until(moment: str) -> None:
        left = datetime.fromisoformat(moment) - a_moment_of_the_database()
        pass_time(seconds=max(left.total_seconds(), 0) + 1)
