"""The model of ordered channels: which message a dequeue may give, in plain Python.

An ordered channel gives its first message, and no other one until that is settled for good. Priority, time and id say
which one is the first."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

from .limit_model import NEAR, SharedLimit
from .states import LEASED, READY


@dataclass(slots=True)
class OrderedLane:
    """A channel, ordered or not.

    holder       while it is ordered: the message that was delivered last, or waits for a shared limit since its turn
    last         the message that held it last; it may be the next one when nothing holds the channel
    next_at      the time of the bucket of its rate
    reason       of its pause: that dead letter, 0 for an operator or for both; None: it is not paused
    """

    name: str
    ordered: bool = False
    on_dead: str = "continue"
    max_concurrency: int | None = None
    release_interval: int | None = None
    holder: int | None = None
    last: int | None = None
    next_at: int = 0
    reason: int | None = None

    def bucket(self, now: int) -> int:
        """Return when the rate gives the next message: a shorter interval holds at once."""
        return now if self.release_interval is None else min(self.next_at, now + self.release_interval)


@dataclass(slots=True)
class OrderedJob:
    """A live message. ``held``: the time until which it holds its channel after a failure or a deferral. ``waits``: it
    waits for a shared limit. ``apart``: it has done so since before its channel was ordered."""

    id: int
    lane: OrderedLane
    handler: str
    limits: frozenset[int]
    priority: int
    due: int
    max_attempts: int
    redriven: bool = False
    status: int = READY
    attempts: int = 0
    token: str = ""
    held: int | None = None
    delivered: bool = False
    waits: bool = False
    apart: bool = False

    @property
    def place(self) -> tuple[int, int, int]:
        return (-self.priority, self.due, self.id)


@dataclass(slots=True)
class Ordered:
    """All of it. ``paused``: handlers. ``dead``: the dead letters, as the messages that they were."""

    now: int = 0
    shared: dict[int, SharedLimit] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    lanes: dict[str, OrderedLane] = field(default_factory=dict)
    jobs: dict[int, OrderedJob] = field(default_factory=dict)
    dead: dict[int, OrderedJob] = field(default_factory=dict)

    def leased(self, lane: OrderedLane | None = None) -> list[OrderedJob]:
        return [job for job in self.jobs.values() if job.status == LEASED and (lane is None or job.lane is lane)]

    def waiting(self, lane: OrderedLane) -> list[OrderedJob]:
        return [job for job in self.jobs.values() if job.status == READY and job.lane is lane]

    def limits_of(self, job: OrderedJob) -> list[SharedLimit]:
        return [limit for key, limit in self.shared.items() if key in job.limits or job.handler in limit.handlers]

    def refusal(self, job: OrderedJob, margin: float) -> str:
        """Return which shared limit or pause keeps a message from its lease; empty: none does."""
        if job.handler in self.paused:
            return f"handler {job.handler} is paused"
        for limit in self.limits_of(job):
            users = sum(limit in self.limits_of(other) for other in self.leased())
            if limit.paused or (limit.max_concurrency is not None and users >= limit.max_concurrency):
                return f"limit {limit.name} is paused or full"
            if limit.bucket(self.now) < 1 + margin:
                return f"limit {limit.name} has {limit.bucket(self.now)} tokens"
        return ""

    def check_turn(self, job: OrderedJob, standing: Set[int]) -> None:
        """``standing``: the messages that were ready before the call. One whose time has come, or whose limit has room,
        may become ready in the call itself."""
        lane = job.lane
        if not lane.ordered:
            return
        assert not self.leased(lane), f"message {job.id} came beside another one of channel {lane.name}"
        if lane.holder in self.jobs:
            assert lane.holder == job.id, f"message {job.id} overtakes {lane.holder}, which holds its channel"
        elif not (job.delivered or job.apart or job.id == lane.last):
            before = [other.id for other in self.waiting(lane) if other.place < job.place and other.id in standing]
            assert not before, f"message {job.id} overtakes {before}"

    def set_aside(self, job: OrderedJob, standing: Set[int]) -> None:
        """Its turn has come, but its limit has no room: it holds the channel."""
        self.check_turn(job, standing)
        job.lane.holder = job.lane.last = job.id

    def lease(self, number: int, token: str, standing: Set[int]) -> None:
        """A dequeue has delivered the message: check that it was allowed to."""
        job = self.jobs.get(number)
        assert job is not None, f"message {number} has ended"
        lane = job.lane
        assert job.status == READY, f"message {number} is leased twice"
        assert max(job.due, job.held or 0) <= self.now, f"message {number} is not due, or held"
        assert lane.reason is None, f"channel {lane.name} is paused"
        why = self.refusal(job, -NEAR)
        assert not why, f"message {number}: {why}"
        self.check_turn(job, standing)
        most = lane.max_concurrency
        assert most is None or len(self.leased(lane)) < most, f"channel {lane.name} has more than max_concurrency"
        assert lane.bucket(self.now) <= self.now, f"channel {lane.name} is faster than its rate"
        if lane.release_interval is not None:
            lane.next_at = self.now + lane.release_interval
        for limit in self.limits_of(job):
            limit.tokens = None if limit.interval is None else limit.bucket(self.now) - 1
            limit.filled_at = self.now
        job.status, job.token, job.delivered, job.waits, job.apart = LEASED, token, True, False, False
        job.attempts += 1
        if lane.ordered:
            lane.holder = lane.last = number

    def fail(self, job: OrderedJob, delay: int) -> str:
        """Return the outcome of a failed attempt."""
        if job.attempts >= job.max_attempts:
            self.bury(job)
            return "dead_lettered"
        self.put_back(job, self.now + delay)
        return "retried"

    def put_back(self, job: OrderedJob, at: int | None) -> None:
        """``at`` None: it keeps its place and its time."""
        job.status, job.held = READY, at if job.lane.ordered else None
        if at is not None and not job.lane.ordered:
            job.due = at

    def bury(self, job: OrderedJob, discarded: bool = False) -> None:
        del self.jobs[job.id]
        self.dead[job.id] = job
        lane = job.lane
        if lane.ordered and lane.on_dead == "pause" and not discarded:
            lane.reason = job.id if lane.reason is None else 0

    def reschedule(self, job: OrderedJob, at: int, scheduled: bool) -> str:
        """``scheduled``: it waits for its time, or for a shared limit."""
        holds = job.held is not None or (job.lane.ordered and job.delivered and (job.waits or not scheduled))
        if not scheduled and at <= self.now and (job.held or 0) <= self.now:
            return "ready"
        job.waits = False
        if holds:
            job.held = at
        else:
            # It was not delivered yet, so the others of its channel may go on.
            job.due = at
            job.lane.holder = None if job.lane.holder == job.id else job.lane.holder
        return "rescheduled"

    def redrive(self, old: OrderedJob, new: int) -> None:
        del self.dead[old.id]
        lane = old.lane
        due = min(self.now, old.due - (not old.redriven)) if lane.ordered else self.now
        if lane.reason == old.id:
            lane.reason = None
        self.jobs[new] = OrderedJob(
            new, lane, old.handler, old.limits, old.priority, due, old.max_attempts, redriven=True
        )

    def set_order(self, lane: OrderedLane, ordered: bool) -> None:
        if ordered != lane.ordered:
            lane.holder = None
            for job in self.waiting(lane):
                job.apart = job.waits
                if lane.ordered and job.held is not None:
                    job.due = job.due if job.waits else job.held
                    job.held = None
        lane.ordered = ordered
        lane.max_concurrency = 1 if ordered else lane.max_concurrency

    def obstacle(self, job: OrderedJob) -> str:
        """Return what keeps a message from being delivered now; empty: nothing does."""
        lane = job.lane
        due = [other for other in self.waiting(lane) if other.due <= self.now]
        if job not in due or lane.reason is not None:
            return "not due, or paused"
        if lane.bucket(self.now) > self.now:
            return "its channel has a rate"
        if lane.ordered:
            first = next((self.jobs[n] for n in (lane.holder, lane.last) if n in self.jobs), None)
            first = first if first in due else min(due, key=lambda other: other.place)
            if self.leased(lane) or job is not first or any((other.held or 0) > self.now for other in due):
                return "its channel is held"
        elif lane.max_concurrency is not None and len(self.leased(lane)) >= lane.max_concurrency:
            return "its channel is at its limit"
        return self.refusal(job, NEAR)
