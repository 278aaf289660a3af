"""The rules of ordered channels: calls in any order, with limits, pauses and failures, beside `ordered_model`."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from psycopg.types.json import Jsonb

from .idle import check_obstacles, run_until_idle
from .limit_model import SharedLimit
from .limit_rules import spelt
from .ordered_model import Ordered, OrderedJob, OrderedLane
from .sql import Queue, Refusal, moment, span
from .states import LEASED, READY, SECOND

LANES: dict[str, dict[str, Any]] = {
    "a": {"ordered": True},
    "b": {"ordered": True, "on_dead": "pause"},
    "c": {},
    "d": {"max_concurrency": 2},
}
ENQUEUE = """SELECT id, refusal FROM pgqueue_enqueue(%s, '{}', %s, 'q', p_max_attempts => %s, p_limits => %s,
    p_priority => %s, p_delay => %s, p_backoff => '0')"""
DEQUEUE = "SELECT id, token::text FROM pgqueue_dequeue('q', %s, '1 day')"
LOOK = "SELECT id, status, coalesce(waits_for >= 0, false) FROM pgqueue_message ORDER BY id"
ROWS = "SELECT id, status = 2, attempts, us(dequeue_at), us(held_until) FROM pgqueue_message ORDER BY id"
PAUSED = "SELECT name FROM pgqueue_channel WHERE paused_at IS NOT NULL ORDER BY name"
RESCHEDULE = "SELECT id, outcome, refusal FROM pgqueue_reschedule(ARRAY[%s::bigint], %s)"
REDRIVE = "SELECT old_id, new_id, refusal FROM pgqueue_redrive(ARRAY[%s::bigint])"
channels, handlers, names = st.sampled_from("aaabbcd"), st.sampled_from("gggh"), st.sampled_from("xy")
wanted = st.lists(names, max_size=2, unique=True)
pick = st.integers(0, 11)
delays = st.sampled_from([0, 0, SECOND, 30 * SECOND])
shared = st.fixed_dictionaries(
    {},
    optional={
        "max_concurrency": st.sampled_from([None, 1, 1, 2]),
        "release_interval": st.sampled_from([None, None, SECOND, 7 * SECOND]),
        "handlers": st.sampled_from([[], ["h"], ["g", "h"]]),
    },
)
of_channel = st.fixed_dictionaries(
    {},
    optional={
        "ordered": st.sampled_from([True, True, False]),
        "on_dead": st.sampled_from(["continue", "pause"]),
        "max_concurrency": st.sampled_from([None, 1, 2]),
        "release_interval": st.sampled_from([None, None, SECOND]),
    },
)


class OrderedRules(RuleBasedStateMachine):
    """``queue`` is given by the test. ``steps`` counts those of all runs. ``sound``: the last step has ended well."""

    queue: Queue
    steps = 0

    def __init__(self) -> None:
        super().__init__()
        self.sound = True
        self.queue.reset()
        self.model = Ordered()
        for name, settings in LANES.items():
            self.model.lanes[name] = OrderedLane(name)
            self.set_channel(name, settings)

    def ask(self, query: str, *parameters: Any) -> Any:
        """Return the rows of a call that is never refused here."""
        self.sound = False
        answer = self.queue.rows(query, *parameters)
        assert not isinstance(answer, Refusal), answer
        return answer

    def advance(self, time: int) -> None:
        self.model.now += time
        self.queue.set_clock(self.model.now)

    @initialize(settings=shared)
    def begin_with(self, settings: dict[str, Any]) -> None:
        self.set_limit("x", {"max_concurrency": 1, **settings})
        for channel in "abac":
            self.enqueue(channel, "g", ["x"], 5, 0, 0)

    # Settings.

    @rule(name=names, settings=shared)
    def set_limit(self, name: str, settings: dict[str, Any]) -> None:
        [(key,)] = self.ask("SELECT id, refusal FROM pgqueue_limit_set(%s, %s)", name, Jsonb(spelt(settings)))
        limit = self.model.shared.setdefault(key, SharedLimit(name))
        limit.max_concurrency = settings.get("max_concurrency", limit.max_concurrency)
        limit.interval = settings.get("release_interval", limit.interval)
        limit.handlers = frozenset(settings.get("handlers", limit.handlers))

    @rule(name=names, verb=st.sampled_from(["pause", "resume"]))
    def pause_limit(self, name: str, verb: str) -> None:
        for limit in [limit for limit in self.model.shared.values() if limit.name == name]:
            self.ask(f"SELECT outcome, refusal FROM pgqueue_limit_{verb}(%s)", name)
            limit.paused = verb == "pause"

    @rule(handler=handlers, verb=st.sampled_from(["pause", "resume"]))
    def pause_handler(self, handler: str, verb: str) -> None:
        self.ask(f"SELECT pgqueue_handler_{verb}(%s)", handler)
        (self.model.paused.add if verb == "pause" else self.model.paused.discard)(handler)

    @rule(name=channels, settings=of_channel)
    def set_channel(self, name: str, settings: dict[str, Any]) -> None:
        lane = self.model.lanes[name]
        ordered = settings.get("ordered", lane.ordered)
        given = {key: value for key, value in settings.items() if not (ordered and key == "max_concurrency")}
        self.ask("SELECT id, refusal FROM pgqueue_channel_set('q', %s, %s)", name, Jsonb(spelt(given)))
        self.model.set_order(lane, ordered)
        for setting in given.keys() - {"ordered"}:
            setattr(lane, setting, given[setting])

    @rule(name=channels, verb=st.sampled_from(["pause", "resume", "resume"]))
    def pause_channel(self, name: str, verb: str) -> None:
        self.ask(f"SELECT outcome, refusal FROM pgqueue_channel_{verb}('q', %s)", name)
        self.model.lanes[name].reason = 0 if verb == "pause" else None

    # Messages.

    @rule(channel=channels, handler=handlers, limits=wanted, attempts=st.sampled_from([5, 5, 1, 2]),
          priority=st.sampled_from([0, 0, 5]), delay=delays)  # fmt: skip
    def enqueue(self, channel: str, handler: str, limits: list[str], attempts: int, priority: int, delay: int) -> None:
        lane = self.model.lanes[channel]
        known = {limit.name: key for key, limit in self.model.shared.items() if limit.name in limits}
        [(number,)] = self.ask(ENQUEUE, handler, channel, attempts, list(known), priority, span(delay))
        due = self.model.now + delay
        self.model.jobs[number] = OrderedJob(number, lane, handler, frozenset(known.values()), priority, due, attempts)
        self.advance(1)

    @rule(channel=channels, limits=wanted, count=st.integers(2, 5))
    def fill(self, channel: str, limits: list[str], count: int) -> None:
        for _ in range(count):
            self.enqueue(channel, "g", limits, 5, 0, 0)

    def look(self) -> set[int]:
        """Learn which messages wait for a limit. Returns those that are ready."""
        standing = set()
        for number, status, waits in self.ask(LOOK):
            self.model.jobs[number].waits = waits
            standing |= {number} if status == READY else set()
        return standing

    @rule(limit=st.sampled_from([1, 1, 2, 10]))
    def take(self, limit: int) -> None:
        self.dequeue(limit)

    def dequeue(self, limit: int) -> int:
        self.advance(1)
        standing = self.look()
        before = {job.id for job in self.model.jobs.values() if job.waits}
        answer = self.ask(DEQUEUE, limit)
        for number, token in answer:
            self.model.lease(number, token, standing)
        self.look()
        for job in self.model.jobs.values():
            if job.waits and job.id not in before and job.lane.ordered:
                self.model.set_aside(job, standing)
        return len(answer)

    @rule(limit=st.sampled_from([1, 10]))
    def dequeue_and_roll_back(self, limit: int) -> None:
        """All that it has written is gone: whose turn it was, and what was set aside."""
        self.advance(1)
        with self.queue.session.transaction(force_rollback=True):
            self.ask(DEQUEUE, limit)

    def held(self, pick: int) -> list[OrderedJob]:
        found = self.model.leased()
        return [found[pick % len(found)]] if found else []

    @rule(pick=pick)
    def complete(self, pick: int) -> None:
        for job in self.held(pick):
            self.queue.settle("complete", [(job.id, job.token)])
            del self.model.jobs[job.id]

    @rule(pick=pick, delay=delays)
    def retry(self, pick: int, delay: int) -> None:
        for job in self.held(pick):
            more = {"errors": [Jsonb({})], "delays": [span(delay)]}
            answer = self.queue.settle("retry", [(job.id, job.token)], **more)
            assert answer == [(job.id, self.model.fail(job, delay))]

    @rule(pick=pick, delay=st.none() | delays)
    def defer(self, pick: int, delay: int | None) -> None:
        """Without a delay the message is given back, as at the end of a worker."""
        for job in self.held(pick):
            given = None if delay is None else [span(delay)]
            assert self.queue.settle("defer", [(job.id, job.token)], delays=given) == [(job.id, "deferred")]
            self.model.put_back(job, None if delay is None else self.model.now + delay)
            job.attempts -= 1
            job.held = None if delay is None else job.held

    @rule(pick=pick)
    def dead_letter(self, pick: int) -> None:
        for job in self.held(pick):
            self.queue.settle("dead_letter", [(job.id, job.token)], reasons=["refused"])
            self.model.bury(job)

    # Operators.

    @rule(pick=pick, verb=st.sampled_from(["cancel", "discard"]))
    def remove(self, pick: int, verb: str) -> None:
        known = [job for job in self.model.jobs.values() if job.status == READY or verb == "discard"]
        for job in known[pick % len(known) :][:1] if known else []:
            self.ask(f"SELECT id, outcome FROM pgqueue_{verb}(ARRAY[%s::bigint])", job.id)
            if verb == "discard":
                self.model.bury(job, discarded=True)
            else:
                del self.model.jobs[job.id]

    @rule(pick=pick, delay=st.sampled_from([0, SECOND, 30 * SECOND]))
    def reschedule(self, pick: int, delay: int) -> None:
        known = [job for job in self.model.jobs.values() if job.status == READY]
        for job in known[pick % len(known) :][:1] if known else []:
            standing, at = self.look(), self.model.now + delay
            [(_, outcome)] = self.ask(RESCHEDULE, job.id, moment(at))
            assert outcome == self.model.reschedule(job, at, job.id not in standing)

    @rule(pick=pick)
    def redrive(self, pick: int) -> None:
        letters = list(self.model.dead.values())
        for letter in letters[pick % len(letters) :][:1] if letters else []:
            [(_, new)] = self.ask(REDRIVE, letter.id)
            self.model.redrive(letter, new)
            self.advance(1)

    # Time.

    @rule(time=st.sampled_from([1, SECOND, 8 * SECOND, 40 * SECOND, 700 * SECOND]))
    def pass_time(self, time: int) -> None:
        self.advance(time)

    @rule()
    def tick(self) -> None:
        self.ask("SELECT pgqueue_tick()")

    @rule()
    def all_that_may_run_runs(self) -> None:
        """After enough dequeues each message that waits has an obstacle."""
        self.advance(6 * SECOND)
        run_until_idle(self.tick, lambda: self.dequeue(10))
        check_obstacles((job for job in self.model.jobs.values() if job.status == READY), self.model.obstacle)

    @invariant()
    def the_messages_are_as_the_model_says(self) -> None:
        type(self).steps += 1
        jobs = sorted(self.model.jobs.values(), key=lambda job: job.id)
        expected = [(job.id, job.status == LEASED, job.attempts, job.due, job.held) for job in jobs]
        assert self.ask(ROWS) == expected
        paused = [name for name, lane in self.model.lanes.items() if lane.reason is not None]
        assert [name for (name,) in self.ask(PAUSED)] == paused
        assert self.ask("SELECT next_id, problem FROM pgqueue_find_unreachable()") == []
        self.sound = True
