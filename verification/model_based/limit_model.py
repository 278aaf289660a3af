"""The model of limits: shared limits, limits and shares of queues, and the order of channels, in plain Python."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil, floor

from .states import LEASED, READY

NEAR = 1e-6
"""Tokens and times within this difference are equal: the queue computes with floating point, too."""


@dataclass(slots=True)
class SharedLimit:
    """``tokens``: in the bucket at ``filled_at``; None: full, no message has had the limit yet. ``handlers``: those
    whose messages have the limit."""

    name: str
    max_concurrency: int | None = None
    max_cost: int | None = None
    interval: int | None = None
    burst: int = 1
    paused: bool = False
    tokens: float | None = None
    filled_at: int = 0
    handlers: frozenset[str] = frozenset()

    def bucket(self, now: int) -> float:
        if self.interval is None:
            return float("inf")
        if self.tokens is None:
            return self.burst
        return min(float(self.burst), self.tokens + (now - self.filled_at) / self.interval)


@dataclass(slots=True)
class QueueLimit:
    """``next_at``: the theoretical arrival time of the next delivery, which may be ``debt`` tokens beyond the burst;
    ``spent``: corrections of costs that no dequeue has seen yet."""

    max_concurrency: int | None = None
    interval: int | None = None
    burst: int = 1
    fairness: str = "turns"
    max_share: float | None = None
    paused: bool = False
    next_at: int = 0
    debt: int = 0
    spent: int = 0

    def bounded(self, now: int) -> int:
        """Return the time of the bucket: a shorter interval holds at once."""
        assert self.interval is not None
        return min(self.next_at, now + (self.burst + self.debt) * self.interval)

    def move(self, now: int, next_at: int) -> None:
        assert self.interval is not None
        self.next_at = next_at
        self.debt = max(0, ceil((next_at - now) / self.interval) - self.burst)

    def collect(self, now: int) -> None:
        """A dequeue takes the corrections of costs."""
        if self.interval is not None and not self.paused:
            self.move(now, self.bounded(now) + self.spent * self.interval)
            self.spent = 0


@dataclass(slots=True)
class Lane:
    """A channel. ``current``: of an ordered one, the message that was delivered last."""

    name: str
    queue: str
    weight: int = 1
    ordered: bool = False
    on_dead: str = "continue"
    paused: bool = False
    current: int | None = None


@dataclass(slots=True)
class Job:
    """A live message. ``held``: the time before which an ordered channel does not deliver it again."""

    id: int
    lane: Lane
    handler: str
    cost: int
    limits: frozenset[int]
    due: int
    max_attempts: int
    status: int = READY
    attempts: int = 0
    token: str = ""
    held: int = 0


@dataclass(slots=True)
class Limits:
    """All of it. ``slots``: of the workers that serve the queues."""

    slots: int
    now: int = 0
    shared: dict[int, SharedLimit] = field(default_factory=dict)
    queues: dict[str, QueueLimit] = field(default_factory=dict)
    lanes: dict[str, Lane] = field(default_factory=dict)
    jobs: dict[int, Job] = field(default_factory=dict)

    def limits_of(self, job: Job) -> list[SharedLimit]:
        """Return those that the message names and that were not dropped, and those of its handler."""
        return [limit for key, limit in self.shared.items() if key in job.limits or job.handler in limit.handlers]

    def leased(self, jobs: Iterable[Job] | None = None) -> list[Job]:
        return [job for job in (self.jobs.values() if jobs is None else jobs) if job.status == LEASED]

    def users(self, limit: SharedLimit) -> list[Job]:
        return [job for job in self.leased() if limit in self.limits_of(job)]

    def refusal(self, limit: SharedLimit, cost: int) -> str:
        """Return why a message of this cost may not be leased now within the limit; empty: it may."""
        users = self.users(limit)
        if limit.paused:
            return "paused"
        if limit.max_concurrency is not None and len(users) >= limit.max_concurrency:
            return f"{len(users)} of {limit.max_concurrency} places are taken"
        if limit.max_cost is not None:
            free = max(0, limit.max_cost - sum(job.cost for job in users))
            if free < min(cost, limit.max_cost):
                return f"{free} of {limit.max_cost} are free, and it costs {cost}"
        if limit.bucket(self.now) < min(cost, limit.burst) - NEAR:
            return f"{limit.bucket(self.now)} tokens, and it takes {min(cost, limit.burst)}"
        return ""

    def queue_is_open(self, name: str, cost: int) -> bool:
        """Return whether the limits of the queue let a message of this cost start now."""
        queue = self.queues[name]
        if queue.paused:
            return False
        held = len([job for job in self.leased() if job.lane.queue == name])
        if queue.max_concurrency is not None and held >= queue.max_concurrency:
            return False
        if queue.interval is None:
            return True
        at = max(self.now, queue.bounded(self.now) + queue.spent * queue.interval)
        return at - self.now <= (queue.burst - min(cost, queue.burst)) * queue.interval

    def most_of_share(self, name: str) -> int | None:
        """Return how many leases of the queue one channel may hold; None: any number."""
        share = self.queues[name].max_share
        slots = min(self.slots, self.queues[name].max_concurrency or self.slots)
        return None if share is None else max(1, floor(share * slots + NEAR))

    def held_by(self, lane: Lane) -> int:
        return len([job for job in self.leased() if job.lane is lane])

    def lease(self, number: int, token: str) -> None:
        """A dequeue has delivered the message: check that it was allowed to, and take what it takes."""
        job = self.jobs.get(number)
        assert job is not None, f"message {number} has ended"
        lane = job.lane
        assert job.status == READY, f"message {number} is leased twice"
        assert job.due <= self.now, f"message {number} is not due"
        assert job.held <= self.now, f"message {number} holds its channel until {job.held}"
        assert not lane.paused, f"channel {lane.name} is paused"
        current = self.jobs.get(lane.current or 0)
        if lane.ordered:
            assert current is None or current is job, f"message {number} overtakes {lane.current}"
        for limit in self.limits_of(job):
            why = self.refusal(limit, job.cost)
            assert not why, f"message {number} has the limit {limit.name}: {why}"
        assert self.queue_is_open(lane.queue, job.cost), f"queue {lane.queue} is at its limit"
        most = self.most_of_share(lane.queue)
        assert most is None or self.held_by(lane) < most, f"channel {lane.name} has more than max_share"
        for limit in self.limits_of(job):
            limit.tokens = None if limit.interval is None else limit.bucket(self.now) - job.cost
            limit.filled_at = self.now
        queue = self.queues[lane.queue]
        if queue.interval is not None:
            queue.move(self.now, max(self.now, queue.bounded(self.now)) + job.cost * queue.interval)
        job.status, job.token, lane.current = LEASED, token, number
        job.attempts += 1

    def spend(self, job: Job, cost: int) -> None:
        for limit in self.limits_of(job):
            if limit.interval is not None:
                limit.tokens = limit.bucket(self.now) - (cost - job.cost)
                limit.filled_at = self.now
        if self.queues[job.lane.queue].interval is not None:
            self.queues[job.lane.queue].spent += cost - job.cost
        job.cost = cost

    def end(self, job: Job) -> None:
        del self.jobs[job.id]

    def fail(self, job: Job, delay: int) -> str:
        """Return the outcome of a failed attempt."""
        if job.attempts >= job.max_attempts:
            self.bury(job)
            return "dead_lettered"
        job.status = READY
        if job.lane.ordered:
            job.held = self.now + delay
        else:
            job.due = self.now + delay
        return "retried"

    def bury(self, job: Job) -> None:
        self.end(job)
        if job.lane.ordered and job.lane.on_dead == "pause":
            job.lane.paused = True

    def obstacle(self, job: Job) -> str:
        """Return what keeps a message from being delivered now; empty: nothing does."""
        lane = job.lane
        waiting = [other for other in self.jobs.values() if other.status == READY and other.lane is lane]
        current = self.jobs.get(lane.current or 0)
        if job.due > self.now or job.held > self.now or lane.paused:
            return "not due, or paused"
        if lane.ordered and current is not None and current is not job:
            return "its channel is held"
        if lane.ordered and current is None and job is not min(waiting, key=lambda other: (other.due, other.id)):
            return "it is not the first of its channel"
        waiting = [other for other in self.jobs.values() if other.status == READY and other.lane.queue == lane.queue]
        if not self.queue_is_open(lane.queue, max(other.cost for other in waiting)):
            return "its queue is at its limit"
        most = self.most_of_share(lane.queue)
        if most is not None and self.held_by(lane) >= most:
            return "its channel has its max_share"
        for limit in self.limits_of(job):
            # A message that costs more may be first, and is not overtaken for ever.
            rivals = [other for other in self.jobs.values() if other.status == READY and limit in self.limits_of(other)]
            if why := self.refusal(limit, max(other.cost for other in rivals)):
                return why
        return ""

    def cap(self, lane: Lane, leases: int, lanes: Iterable[Lane]) -> int:
        """Return the share of a channel among these channels, of so many leases."""
        return ceil(leases * lane.weight / sum(other.weight for other in lanes) - NEAR)
