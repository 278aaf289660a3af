"""The rules of limits: calls in any order, with a clock of the test, beside `limit_model`."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from psycopg.types.json import Jsonb

from .idle import check_obstacles, run_until_idle
from .limit_model import Job, Lane, Limits, QueueLimit, SharedLimit
from .sql import Queue, Refusal, span
from .states import LEASED, READY, SECOND

SLOTS, LEASE = 4, 15 * SECOND
LANES: dict[str, tuple[str, dict[str, Any]]] = {
    "a": ("q", {}),
    "b": ("q", {"weight": 3}),
    "c": ("q", {"ordered": True}),
    "d": ("q", {"ordered": True, "on_dead": "pause"}),
    "e": ("r", {}),
}
WORKER = """
INSERT INTO pgqueue_worker (name, hostname, pid, queues, concurrency, version)
VALUES ('w', 'h', 1, '["q", "r"]', %s, '0')
ON CONFLICT (name) DO UPDATE SET heartbeat_at = public.fake_clock()
"""
DEQUEUE = "SELECT id, token::text FROM pgqueue_dequeue(%s, %s, %s)"
ENQUEUE = """
SELECT id, refusal FROM pgqueue_enqueue('{}', '{{}}', %s, %s, p_max_attempts => %s, p_limits => %s, p_cost => %s)
"""
names = st.sampled_from(["x", "y"])
queues = st.sampled_from(["q", "q", "r"])
picks = st.lists(st.integers(0, 11), min_size=1, max_size=3)
costs = st.sampled_from([1, 1, 1, 2, 5, 9])
shared = st.fixed_dictionaries(
    {},
    optional={
        "max_concurrency": st.sampled_from([None, 1, 2, 3]),
        "max_cost": st.sampled_from([None, None, 4, 10]),
        "release_interval": st.sampled_from([None, None, SECOND, 7 * SECOND]),
        "release_burst": st.sampled_from([1, 3, 6]),
        "handlers": st.sampled_from([[], ["h"]]),
    },
)
of_queue = st.fixed_dictionaries(
    {},
    optional={
        "max_concurrency": st.sampled_from([None, 1, 3]),
        "release_interval": st.sampled_from([None, None, SECOND]),
        "release_burst": st.sampled_from([1, 4]),
        "fairness": st.sampled_from(["turns", "share"]),
        "max_share": st.sampled_from([None, None, 0.5, 0.75]),
    },
)


class LimitRules(RuleBasedStateMachine):
    """``queue`` is given by the test. ``steps`` counts those of all runs."""

    queue: Queue
    steps = 0

    def __init__(self) -> None:
        super().__init__()
        self.queue.reset()
        self.model = Limits(SLOTS, queues={"q": QueueLimit(), "r": QueueLimit()})
        for name, (queue, settings) in LANES.items():
            self.ask("SELECT id, refusal FROM pgqueue_channel_set(%s, %s, %s)", queue, name, Jsonb(settings))
            self.model.lanes[name] = Lane(name, queue, **settings)

    def ask(self, query: str, *parameters: Any) -> Any:
        """Return the rows of a call that is never refused here."""
        answer = self.queue.rows(query, *parameters)
        assert not isinstance(answer, Refusal), answer
        return answer

    def advance(self, time: int) -> None:
        self.model.now += time
        self.queue.set_clock(self.model.now)

    @initialize(settings=shared, jobs=st.integers(2, 6))
    def begin_with(self, settings: dict[str, Any], jobs: int) -> None:
        self.set_limit("x", {"max_concurrency": 2, **settings})
        for place in range(jobs):
            self.enqueue("aabce"[place % 5], "g", ["x"], 1, 5)

    # Limits.

    @rule(name=names, settings=shared)
    def set_limit(self, name: str, settings: dict[str, Any]) -> None:
        [(key,)] = self.ask("SELECT id, refusal FROM pgqueue_limit_set(%s, %s)", name, Jsonb(spelt(settings)))
        limit = self.model.shared.setdefault(key, SharedLimit(name))
        for setting, value in settings.items():
            match setting:
                case "release_interval":
                    limit.interval = value
                case "release_burst":
                    limit.burst = value
                case "handlers":
                    limit.handlers = frozenset(value)
                case _:
                    setattr(limit, setting, value)

    @rule(name=names)
    def drop_limit(self, name: str) -> None:
        self.ask("SELECT pgqueue_limit_drop(%s)", name)
        self.model.shared = {key: limit for key, limit in self.model.shared.items() if limit.name != name}

    @rule(name=names, verb=st.sampled_from(["pause", "resume", "resume"]))
    def pause_limit(self, name: str, verb: str) -> None:
        self.queue.rows(f"SELECT outcome, refusal FROM pgqueue_limit_{verb}(%s)", name)
        for limit in self.model.shared.values():
            if limit.name == name:
                limit.paused = verb == "pause"

    @rule(name=queues, settings=of_queue)
    def set_queue(self, name: str, settings: dict[str, Any]) -> None:
        self.ask("SELECT outcome, refusal FROM pgqueue_queue_set(%s, %s)", name, Jsonb(spelt(settings)))
        queue = self.model.queues[name]
        for setting, value in settings.items():
            setattr(queue, {"release_interval": "interval", "release_burst": "burst"}.get(setting, setting), value)
        if queue.interval is None:
            queue.spent = 0

    @rule(name=queues, verb=st.sampled_from(["pause", "resume", "resume"]))
    def pause_queue(self, name: str, verb: str) -> None:
        self.ask(f"SELECT outcome, refusal FROM pgqueue_queue_{verb}(%s)", name)
        self.model.queues[name].paused = verb == "pause"

    @rule()
    def resume_channels(self) -> None:
        for lane in self.model.lanes.values():
            if lane.paused:
                self.ask("SELECT outcome, refusal FROM pgqueue_channel_resume(%s, %s)", lane.queue, lane.name)
                lane.paused = False

    # Messages.

    @rule(channel=st.sampled_from("aaabbcdee"), handler=st.sampled_from("ggh"), limits=st.lists(names, unique=True),
          cost=costs, attempts=st.sampled_from([5, 1, 2]))  # fmt: skip
    def enqueue(self, channel: str, handler: str, limits: list[str], cost: int, attempts: int) -> None:
        lane = self.model.lanes[channel]
        known = {limit.name: key for key, limit in self.model.shared.items() if limit.name in limits}
        query = ENQUEUE.format(handler)
        [(number,)] = self.ask(query, channel, lane.queue, attempts, list(known), cost)
        self.advance(1)
        self.model.jobs[number] = Job(
            number, lane, handler, cost, frozenset(known.values()), self.model.now - 1, attempts
        )

    @rule(channel=st.sampled_from("aabe"), limits=st.lists(names, min_size=1, unique=True), count=st.integers(3, 8))
    def fill(self, channel: str, limits: list[str], count: int) -> None:
        """More messages than the limits let run."""
        for _ in range(count):
            self.enqueue(channel, "g", limits, 1, 5)

    @rule(name=queues, limit=st.sampled_from([1, 1, 2, 10]))
    def take(self, name: str, limit: int) -> None:
        self.dequeue(name, limit)

    def dequeue(self, name: str, limit: int) -> int:
        self.advance(1)
        self.ask(WORKER + " RETURNING name", SLOTS)
        before = {lane.name: self.model.held_by(lane) for lane in self.model.lanes.values()}
        free = self.unlimited(name)
        answer = self.ask(DEQUEUE, name, limit, span(LEASE))
        # A dequeue that finds an empty line need not look at the rate. What is not collected then is dropped with it.
        [(pending,)] = self.ask("SELECT EXISTS (SELECT FROM pgqueue_spent WHERE queue = %s)", name)
        assert not (answer and pending), "a dequeue with messages takes the corrections of costs"
        if not pending:
            self.model.queues[name].collect(self.model.now)
        for number, token in answer:
            self.model.lease(number, token)
        if self.model.queues[name].fairness == "share" and answer:
            self.shares_are_kept(name, limit, before, free)
        return len(answer)

    def unlimited(self, name: str) -> set[int]:
        """Return the messages that only their channel and queue can hold up: no limit sets them aside."""
        jobs = [job for job in self.model.jobs.values() if job.status == READY and job.lane.queue == name]
        return {job.id for job in jobs if not self.model.limits_of(job) and not job.lane.ordered}

    def shares_are_kept(self, name: str, limit: int, before: dict[str, int], free: set[int]) -> None:
        """No channel gets more than its share while another one has less and waits."""
        model, lanes = self.model, [lane for lane in self.model.lanes.values() if lane.queue == name]
        leases = sum(before[lane.name] for lane in lanes) + limit
        for poor in lanes:
            left = [job for job in model.jobs.values() if job.id in free and job.status == READY and job.lane is poor]
            waits = any(not model.obstacle(job) for job in left)
            if not waits or model.held_by(poor) >= model.cap(poor, leases, lanes):
                continue
            for rich in lanes:
                most = model.cap(rich, leases, (rich, poor)) if rich is not poor else leases
                got = model.held_by(rich) - before[rich.name]
                why = f"{rich.name} has more than its share, and {poor.name} waits"
                assert got == 0 or model.held_by(rich) <= most, why

    @rule(name=queues)
    def dequeue_and_roll_back(self, name: str) -> None:
        """A rollback gives all places and tokens back."""
        self.advance(1)
        with self.queue.session.transaction(force_rollback=True):
            self.ask(DEQUEUE, name, 10, span(LEASE))

    def picked(self, picks: list[int]) -> list[Job]:
        held = self.model.leased()
        return sorted({pick % len(held): held[pick % len(held)] for pick in picks}.values(), key=by_id) if held else []

    @rule(picks=picks)
    def complete(self, picks: list[int]) -> None:
        if jobs := self.picked(picks):
            self.queue.settle("complete", [(job.id, job.token) for job in jobs])
            for job in jobs:
                self.model.end(job)

    @rule(picks=picks, delay=st.sampled_from([0, SECOND, 30 * SECOND]))
    def retry(self, picks: list[int], delay: int) -> None:
        if jobs := self.picked(picks):
            pairs = [(job.id, job.token) for job in jobs]
            more = {"errors": [Jsonb({})] * len(pairs), "delays": [span(delay)] * len(pairs)}
            answer = self.queue.settle("retry", pairs, **more)
            assert answer == [(job.id, self.model.fail(job, delay)) for job in jobs]

    @rule(picks=picks)
    def dead_letter(self, picks: list[int]) -> None:
        if jobs := self.picked(picks):
            pairs = [(job.id, job.token) for job in jobs]
            self.queue.settle("dead_letter", pairs, reasons=["refused"] * len(pairs))
            for job in jobs:
                self.model.bury(job)

    @rule(picks=picks, cost=costs)
    def spend(self, picks: list[int], cost: int) -> None:
        for job in self.picked(picks[:1]):
            assert self.ask("SELECT pgqueue_spend(%s, %s::uuid, %s)", job.id, job.token, cost) == [(job.cost,)]
            self.model.spend(job, cost)

    # Time.

    @rule(time=st.sampled_from([1, SECOND, 3 * SECOND, 40 * SECOND, 700 * SECOND]))
    def pass_time(self, time: int) -> None:
        """Leases do not expire here: a worker that lives extends them."""
        held = self.model.leased()
        self.advance(time)
        if held:
            self.queue.settle("heartbeat", [(job.id, job.token) for job in held], lease=span(LEASE))

    @rule()
    def all_workers_die(self) -> None:
        """Their leases expire, and the sweep gives the messages back."""
        held = self.model.leased()
        self.advance(LEASE + 6 * SECOND)
        self.ask("SELECT retried FROM pgqueue_sweep()")
        for job in held:
            self.model.fail(job, 0)
        rows = self.ask("SELECT id, us(dequeue_at), us(held_until) FROM pgqueue_message")
        for number, due, until in rows:
            job = self.model.jobs[number]
            job.due, job.held = (job.due, until or 0) if job.lane.ordered else (due, 0)

    @rule()
    def tick(self) -> None:
        self.ask("SELECT pgqueue_tick()")

    @rule()
    def all_that_may_run_runs(self) -> None:
        """After enough dequeues each message that waits has an obstacle."""
        self.pass_time(2 * SECOND)
        run_until_idle(self.tick, lambda: [name for name in self.model.queues if self.dequeue(name, 10)])
        check_obstacles((job for job in self.model.jobs.values() if job.status == READY), self.model.obstacle)

    @invariant()
    def the_messages_are_as_the_model_says(self) -> None:
        type(self).steps += 1
        rows = self.ask("SELECT id, status = 2, attempts, coalesce(cost, 1) FROM pgqueue_message ORDER BY id")
        jobs = sorted(self.model.jobs.values(), key=by_id)
        assert rows == [(job.id, job.status == LEASED, job.attempts, job.cost) for job in jobs]
        paused = self.ask("SELECT name FROM pgqueue_channel WHERE paused_at IS NOT NULL ORDER BY name")
        assert [name for (name,) in paused] == sorted(lane.name for lane in self.model.lanes.values() if lane.paused)

    def teardown(self) -> None:
        self.queue.session.rollback()


def by_id(job: Job) -> int:
    return job.id


def spelt(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings as the functions take them."""
    interval = settings.get("release_interval")
    return {**settings, **({"release_interval": f"{interval} microseconds"} if interval else {})}
