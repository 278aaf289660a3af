"""One question: the first call is done and not committed; does the second wait?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from tests.support.sessions import Session
from verification.model_based.sql import Queue

from .verbs import ABSENT, DEAD, READY, Verb

APPS = ("pgqueue", "pgqueue_flow")
FLOW = ("batch", "batch_member", "batch_lost", "batch_unsure")
RELATIONS = ("same message", "same channel", "other channel")
LEASE = 1_000_000
FREE, ELSE = "·", "passes by"
PATIENCE_SECONDS = 30  # seconds, for what takes milliseconds
# The SQLSTATEs of a transaction that waits in a circle, or may.
CIRCLES = ("40P01", "PGQ06")
# Nothing takes so long, unless it hangs; and circles are found at once.
IMPATIENT = "SET deadlock_timeout = '20ms'; SET statement_timeout = '60s'"


@dataclass(frozen=True, slots=True)
class Subject:
    """The message, or the name of the one to come, that a call is about."""

    id: int
    token: str
    channel: str
    key: str

    def parameters(self) -> dict[str, Any]:
        return {"id": self.id, "token": self.token, "channel": self.channel, "key": self.key}


@dataclass(slots=True)
class Stage:
    """``limits`` of the channels; ``isolation`` of both transactions; ``awaited``: another message waits for theirs."""

    queue: Queue
    first: Session
    second: Session
    pool: Executor
    isolation: str = "read committed"
    limits: str = "{}"
    awaited: bool = False

    def answer(self, one: Verb, other: Verb, relation: str) -> str:
        """·, or what is different from how it would be without the first."""
        subjects = self.arrange(one, other, relation)
        alone = self.alone(other, subjects[1])
        with self.opened(self.first, one, subjects[0]):
            call = self.pool.submit(self.alone, other, subjects[1])
            if self.waits(call, self.second):
                self.first.execute("COMMIT")
                found = call.result(PATIENCE_SECONDS)
                return f"waits, then {found}" if isinstance(found, str) else "waits"
            found = call.result()
        if found == alone:
            return FREE
        return f"refused, {found}" if isinstance(found, str) else ELSE

    def crossed(self, one: Verb, other: Verb) -> str:
        """Each session does one, and then both what the other has done. Returns the SQLSTATEs of those that fail.

        The session that looks for the deadlock first is the one that fails, so each of them is the first to look once.
        """
        found = {code for finder in (0, 1) for code in self.crossed_once(one, other, finder) if code in CIRCLES}
        return ", ".join(sorted(found))

    def crossed_once(self, one: Verb, other: Verb, finder: int) -> list[Any]:
        """Return the outcomes of both second calls; none if the first ones wait for each other already."""
        sessions = (self.first, self.second)
        for place, session in enumerate(sessions):
            session.execute(f"SET deadlock_timeout = '{'20ms' if place == finder else '10s'}'")
        mine, theirs = self.arrange(one, other, "other channel")
        with self.opened(self.first, one, mine), self.prepared(self.second):
            call = self.pool.submit(outcome, self.second, other, theirs)
            if self.waits(call, self.second):
                self.first.execute("ROLLBACK")
                call.result(PATIENCE_SECONDS)
                return []
            calls = [
                self.pool.submit(outcome, self.first, other, theirs),
                self.pool.submit(outcome, self.second, one, mine),
            ]
            # The other may wait for the one that ends first, also when that one was refused as busy: it is still open.
            ended, _ = wait(calls, PATIENCE_SECONDS, FIRST_COMPLETED)
            for ready, session in zip(calls, sessions, strict=True):
                if ready in ended:
                    session.execute("COMMIT")
            return [call.result(PATIENCE_SECONDS) for call in calls]

    def waits(self, call: Future[Any], session: Session) -> bool:
        """Return whether the call waits for a lock; else it has come to its end."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        pid = session.info.backend_pid
        while not wait([call], 0.01).done:
            if self.queue.one("SELECT cardinality(pg_blocking_pids(%s))", pid):
                return True
            assert time.monotonic() < deadline, "it neither ends nor waits for a lock"
        return False

    def alone(self, verb: Verb, subject: Subject) -> Any:
        """In a transaction of its own, of which nothing is kept."""
        with self.opened(self.second, verb, subject) as found:
            return found

    @contextmanager
    def opened(self, session: Session, verb: Verb, subject: Subject) -> Iterator[Any]:
        with self.prepared(session):
            yield outcome(session, verb, subject)

    @contextmanager
    def prepared(self, session: Session) -> Iterator[None]:
        session.execute(f"BEGIN ISOLATION LEVEL {self.isolation}")
        try:
            yield
        finally:
            session.rollback()

    def arrange(self, one: Verb, other: Verb, relation: str) -> tuple[Subject, Subject]:
        """The queue as new, with one message, or one for each call."""
        self.queue.reset()
        self.queue.session.execute("; ".join(f"DELETE FROM pgqueue_{table}" for table in FLOW))
        for name in "xy":
            self.queue.one("SELECT pgqueue_channel_set('default', %s, %s::jsonb)", name, self.limits)
        if relation == "same message":
            only = self.make("x", other.needs if one.needs == ABSENT else one.needs, "k")
            subjects = (only, only)
        else:
            second = "x" if relation == "same channel" else "y"
            subjects = (self.make("x", one.needs, "k"), self.make(second, other.needs, "l"))
        if self.awaited:
            ids = sorted({subject.id for subject in subjects} - {0})
            self.queue.one("SELECT id FROM pgqueue_enqueue_after(%s, 'run', 'waits', '{}', 'y')", ids)
        # Leases have expired by now: the sweep would take them.
        self.queue.set_clock(2 * LEASE)
        return subjects

    def make(self, channel: str, state: str, key: str) -> Subject:
        absent = Subject(0, "00000000-0000-0000-0000-000000000000", channel, key)
        if state == ABSENT:
            return absent
        number = self.queue.one(
            "SELECT id FROM pgqueue_enqueue('work', '{}', %s, p_dedupe_key => %s, p_backoff => '0')", channel, key
        )
        if state == READY:
            return Subject(number, absent.token, channel, key)
        # By hand: a dequeue would take whichever message comes first. The leases expire in the order of ids: what takes
        # back one of them takes the same in each run.
        token = self.queue.one(
            "UPDATE pgqueue_message SET status = 2, attempts = 1, lease_token = gen_random_uuid(), leased_at = "
            "fake_clock(), lease_expires_at = fake_clock() + interval '1 second' + id * interval '1 us' WHERE id = %s "
            "RETURNING lease_token",
            number,
        )
        if state == DEAD:
            self.queue.one("SELECT pgqueue_dead_letter(ARRAY[%s], ARRAY[%s::uuid], ARRAY['no'])", number, token)
        return Subject(number, str(token), channel, key)


@contextmanager
def opened(url: str) -> Iterator[Stage]:
    """A stage on this database."""
    with ExitStack() as sessions:
        arranger, first, second = (sessions.enter_context(psycopg.connect(url, autocommit=True)) for _ in range(3))
        for session in (first, second):
            session.prepare_threshold = 1
            session.execute(IMPATIENT)
        yield Stage(Queue(arranger), first, second, sessions.enter_context(ThreadPoolExecutor(2)))


def outcome(session: Session, verb: Verb, subject: Subject) -> Any:
    """How many it did; the SQLSTATE, if it was refused, by an error or by a second column."""
    try:
        rows = session.execute(verb.sql, subject.parameters()).fetchall()
    except psycopg.Error as error:
        return error.sqlstate or str(error)
    if rows and len(rows[0]) > 1 and rows[0][1]:
        return rows[0][1]["sqlstate"]
    return rows[0][0] if verb.answers else len(rows)
