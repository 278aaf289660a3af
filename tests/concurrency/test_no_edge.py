"""No wake-up depends on an edge: what may run is found by its state, not by the moment at which it came to be so.

After any history, once all is quiet and settled, each message that may run is delivered by the next calls, and by the
next tick where a limit had room. Load would hide a message that was forgotten, so nothing else happens at the end.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import psycopg
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.support.sessions import Session, column
from tests.support.tables import empty_tables
from tests.support.verbs import Lease, dequeue, limit_set, make_channel, retry, send, set_queue, settle, tick

# Each channel has one queue; c runs one message at a time.
CHANNELS = {"a": "q", "b": "q", "c": "q", "d": "r"}
LIMITS = ("x", "y")
LEFT = """
SELECT m.id, m.channel_id, array(SELECT l.name FROM pgqueue_limit AS l WHERE l.id = ANY (m.limits) ORDER BY l.name)
FROM pgqueue_message AS m WHERE m.status <> 2
"""

whose = st.booleans()  # the session of each consumer, or the one whose transaction stays open
steps = st.one_of(
    st.tuples(st.just("send"), st.sampled_from("aabcd"), st.sampled_from([(), ("x",), ("y",), ("x", "y"), ("x", "y")])),
    st.tuples(st.just("dequeue"), whose, st.tuples(st.sampled_from("qqr"), st.sampled_from([1, 1, 2, 10]))),
    st.tuples(st.sampled_from(["complete", "retry"]), st.integers(0, 5), st.none()),
    st.tuples(st.just("cancel"), st.integers(0, 5), st.none()),
    st.tuples(st.just("limit"), st.sampled_from(LIMITS), st.sampled_from([1, 2, 3])),
    st.tuples(st.sampled_from(["pause", "resume", "resume"]), st.sampled_from(LIMITS), st.none()),
    st.tuples(st.just("end"), st.sampled_from(["COMMIT", "ROLLBACK"]), st.none()),
    st.tuples(st.just("tick"), st.none(), st.none()),
)
Step = tuple[str, Any, Any]


class History:
    """Two consumers, one of them with a transaction that stays open, and what they hold."""

    def __init__(self, session: Session, business: Session) -> None:
        self.session, self.business = session, business
        self.held: list[Lease] = []
        self.open: list[Lease] = []
        for channel, queue in CHANNELS.items():
            make_channel(session, channel, queue, **({"max_concurrency": 1} if channel == "c" else {}))
        for name in LIMITS:
            limit_set(session, name, max_concurrency=1)
        self.caps = dict.fromkeys(LIMITS, 1)
        self.paused: set[str] = set()

    def do(self, step: str, one: Any, two: Any) -> None:
        match step:
            case "send":
                send(self.session, one, limits=two, queue=CHANNELS[one])
            case "dequeue" if one:
                self.open += dequeue(self.business, two[1], queue=two[0], lease="1 hour")
            case "dequeue":
                self.held += dequeue(self.session, two[1], queue=two[0], lease="1 hour")
            case "complete" if self.held:
                settle(self.session, [self.held.pop(one % len(self.held))])
            case "retry" if self.held:
                retry(self.session, [self.held.pop(one % len(self.held))])
            case "cancel":
                waiting = column(self.session, "SELECT id FROM pgqueue_message WHERE status <> 2 ORDER BY id")
                self.unless_locked("SELECT pgqueue_cancel(%s)", waiting[one : one + 1])
            case "limit":
                if self.unless_locked("SELECT pgqueue_limit_set(%s, %s::jsonb)", one, f'{{"max_concurrency": {two}}}'):
                    self.caps[one] = two
            case "pause" | "resume":
                if self.unless_locked(f"SELECT pgqueue_limit_{step}(%s)", one):
                    (self.paused.add if step == "pause" else self.paused.discard)(one)
            case "end":
                self.end(one)
            case "tick":
                tick(self.session)

    def unless_locked(self, statement: str, *parameters: Any) -> bool:
        """The open transaction may hold what an operator wants to change. Returns whether it was changed."""
        try:
            self.session.execute(statement, parameters)
        except psycopg.errors.LockNotAvailable:
            return False
        return True

    def end(self, how: str) -> None:
        self.business.execute(how)
        self.held += self.open if how == "COMMIT" else []
        self.open.clear()

    def call(self) -> int:
        """Dequeue until nothing comes, from each queue. Returns the number of messages."""
        found = 0
        for queue in ("q", "r", "q"):
            while leases := dequeue(self.session, 2, queue=queue, lease="1 hour"):
                self.held += leases
                found += len(leases)
        return found

    def what_may_run(self) -> list[tuple[int, list[str]]]:
        """Return the messages that no limit keeps back, with their limits."""
        used: Counter[str] = Counter()
        for (names,) in self.session.execute(
            "SELECT array(SELECT l.name FROM pgqueue_limit AS l WHERE l.id = ANY (m.limits)) "
            "FROM pgqueue_message AS m WHERE m.status = 2"
        ):
            used.update(names)
        full = {name for name, cap in self.caps.items() if used[name] >= cap or name in self.paused}
        busy = column(
            self.session,
            "SELECT m.channel_id FROM pgqueue_message AS m JOIN pgqueue_channel AS c ON c.id = m.channel_id "
            "WHERE m.status = 2 AND c.max_concurrency IS NOT NULL",
        )
        left = self.session.execute(LEFT).fetchall()
        return [
            (number, names) for number, channel, names in left if channel not in busy and not full.intersection(names)
        ]

    def come_to_rest(self) -> None:
        """Settle all, then only ask: each call and each tick must find all that may run."""
        self.end("COMMIT")
        while True:
            settle(self.session, self.held)
            self.held.clear()
            self.call()
            tick(self.session)
            self.call()
            forgotten = self.what_may_run()
            assert not forgotten, f"may run, and do not, with {self.caps}, paused: {self.paused}: {forgotten}"
            if not self.held:
                return


@given(history=st.lists(steps, min_size=10, max_size=40))
@example(history=[
    *[("send", "a", ("x", "y"))] * 4, *[("send", "d", ("y",))] * 2, ("dequeue", False, ("q", 1)),
    ("dequeue", False, ("r", 1)), ("complete", 0, None), ("cancel", 0, None), ("cancel", 0, None),
])  # fmt: skip
@settings(
    max_examples=60, deadline=None, database=None, derandomize=True, suppress_health_check=[*HealthCheck],
)  # fmt: skip
def test_what_may_run_is_delivered_when_all_is_quiet_whatever_was_before(
    session: Session, business: psycopg.Connection[Any], history: list[Step]
) -> None:
    business.rollback()
    empty_tables()
    world = History(session, business)
    for step in history:
        world.do(*step)
    world.come_to_rest()


def test_a_message_that_was_deleted_by_hand_keeps_no_place(session: Session) -> None:
    limit_set(session, "x", max_concurrency=1)
    send(session, "default", 2, limits=["x"])
    [held] = dequeue(session, 2)
    session.execute("DELETE FROM pgqueue_message WHERE id = %s", [held.id])
    tick(session)
    assert len(dequeue(session)) == 1


def test_advisory_locks_of_another_program_delay_no_delivery(session: Session, other: Session) -> None:
    """Whoever may log in may take them. The queue only tries them, and goes on without."""
    other.execute("SELECT pg_advisory_lock(7205, n) FROM generate_series(1, 4) AS n")
    other.execute("SELECT pg_advisory_lock(hashtextextended('default', n)) FROM generate_series(7205, 7218) AS n")
    send(session, "default", 3, limits=[])
    tick(session)
    assert len(dequeue(session)) == 1
    set_queue(session, max_concurrency=5)
    assert dequeue(session) == [], "without its gate a limit would not hold"
    other.execute("SELECT pg_advisory_unlock_all()")
    assert len(dequeue(session, 5)) == 2
