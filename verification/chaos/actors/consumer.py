"""Takes messages and settles them in every way; crashes, comes too late, and says so."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg

from verification.chaos.history import Call

from .actor import Actor
from .session import ChaosConnection, Transaction

DEQUEUE = (
    "SELECT id, token::text, attempts, coalesce(payload ->> 'key', '') "
    "FROM pgqueue_dequeue(%s, %s, make_interval(secs => %s), %s)"
)
CLOCK = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
LEASES = "%(ids)s::bigint[], %(tokens)s::uuid[]"
CALLS = {
    "complete": f"SELECT pgqueue_complete({LEASES})",
    "retry": f"SELECT id FROM pgqueue_retry({LEASES}, ARRAY['{{}}'::jsonb])",
    "defer": f"SELECT id FROM pgqueue_defer({LEASES}, p_delays => ARRAY[%(delay)s::interval])",
    "dead_letter": f"SELECT pgqueue_dead_letter({LEASES}, ARRAY['rejected'])",
    "heartbeat": f"SELECT id FROM pgqueue_heartbeat({LEASES}, make_interval(secs => %(lease)s))",
}
STEPS = "SELECT count(*) FROM pgqueue_steps(%s, %s) WHERE kind = 'step'"
STEPPED = "INSERT INTO chaos_audit (event, message, attempts, token) VALUES ('stepped', %s, %s, %s)"
KEEP = "SELECT pgqueue_step_keep(%s, %s, 'step', 'once', '1')"
EVENT = "SELECT count(*) FROM pgqueue_step_event(%s, %s, %s)"
# Longer than the run: an event that wakes nobody is seen.
PAUSE = "SELECT id FROM pgqueue_step_pause(%s, %s, 'wait', %s, '1 hour')"
EFFECT = "INSERT INTO chaos_audit (event, message, attempts, token, outcome) VALUES ('effect', %s, %s, %s, %s)"


@dataclass(frozen=True, slots=True)
class Held:
    id: int
    token: str
    attempt: int
    key: str
    until: float


class Consumer(Actor):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.zombies: list[Held] = []
        self.limits: list[int] = self.stage.options.get("limits", [1, 1, 2, 5])

    def step(self) -> None:
        held = self.dequeue()
        for each in held:
            self.treat(each)
        due = [zombie for zombie in self.zombies if zombie.until < time.monotonic()]
        self.zombies = [zombie for zombie in self.zombies if zombie not in due]
        for zombie in due:
            if zombie.key.startswith("steps") and not self.step_and_wait(zombie):
                continue
            self.settle(self.random.choice([*CALLS, "complete"]), zombie)

    def dequeue(self) -> list[Held]:
        lease = self.stage.lease
        limit = self.random.choice(self.limits)
        lingers = not self.stage.calm.is_set() and self.chance(0.03)
        call = self.recorder.invoke("dequeue", limit=limit, lingers=lingers)

        def work(session: ChaosConnection) -> list[Held]:
            parameters = (self.stage.queue, limit, lease, self.name)
            if lingers:
                # In a transaction that is older than a lease lasts.
                with Transaction(session) as transaction:
                    time.sleep(lease * 1.1)
                    [asked] = session.execute(CLOCK).fetchone() or (0,)
                    rows = session.execute(DEQUEUE, parameters).fetchall()
                    transaction.commit()
            else:
                asked = 0
                rows = session.execute(DEQUEUE, parameters).fetchall()
            call.ok(leases=[row[:3] for row in rows], asked=asked)
            until = time.monotonic() + lease * 1.5
            return [Held(message, token, attempt, key, until) for message, token, attempt, key in rows]

        return self.session.call(call, work) or []

    def treat(self, held: Held) -> None:
        if not self.stage.calm.is_set():
            if self.chance(0.05):
                return  # as if it had been killed
            if self.chance(0.05):
                self.zombies.append(held)
                return
            if self.chance(0.1):
                self.slowly(held)
            elif self.chance(0.3):
                time.sleep(self.random.random() * 0.01)
        fails = held.key.startswith("flaky") and not self.stage.calm.is_set()
        verb = self.random.choices(list(CALLS), [1, 8, 1, 0.3, 0] if fails else [10, 2, 1, 0.3, 0])[0]
        if held.key.startswith("steps") and not self.step_and_wait(held):
            return
        if verb == "complete" and held.key.startswith("atomic"):
            self.complete_with_effect(held)
        else:
            self.settle(verb, held)

    def step_and_wait(self, held: Held) -> bool:
        """Run the step of a message, unless it is kept, and wait for its event. Return whether that has come."""
        lease = held.id, held.token
        call = self.recorder.invoke("step", message=held.id)

        def step(session: ChaosConnection) -> bool:
            [kept] = session.execute(STEPS, lease).fetchone() or (0,)
            if not kept:
                if not self.stage.calm.is_set() and self.chance(0.2):
                    # Another one gets the message meanwhile.
                    time.sleep(self.stage.lease * 1.5)
                with Transaction(session) as transaction:
                    session.execute(STEPPED, (held.id, held.attempt, held.token))
                    session.execute(KEEP, lease)
                    transaction.commit()
            [came] = session.execute(EVENT, (*lease, held.key)).fetchone() or (0,)
            call.ok(came=came)
            return bool(came)

        came = self.session.call(call, step)
        if came is False:
            call = self.recorder.invoke("defer", ids=[held.id], tokens=[held.token])
            self.session.call(call, lambda session: call.ok(done=self.pause_it(session, held)))
        return bool(came)

    def pause_it(self, session: ChaosConnection, held: Held) -> list[int]:
        return [row[0] for row in session.execute(PAUSE, (held.id, held.token, held.key)).fetchall()]

    def slowly(self, held: Held) -> None:
        """For longer than a lease lasts, with heartbeats in time."""
        for _ in range(5):
            time.sleep(self.stage.lease * 0.3)
            if not self.settle("heartbeat", held):
                return

    def settle(self, verb: str, held: Held) -> bool:
        """Return whether the call was accepted. A call that breaks is tried again, as a worker does."""
        raced = False
        if verb == "complete" and held.key.startswith(("plain", "async")) and not self.effect(held):
            return False  # as a handler that failed, and whose worker died
        if verb == "complete" and held.key.startswith("atomic"):
            return self.complete_with_effect(held)
        for _ in range(3):
            call = self.recorder.invoke(
                verb, ids=[held.id], tokens=[held.token], raced=raced, lease=int(self.stage.lease * 1_000_000)
            )
            if self.session.call(call, partial(self.send, call, verb, held)):
                return True
            if not self.session.broke:
                return False
            raced = True
        return False

    def send(self, call: Call, verb: str, held: Held, session: psycopg.Connection[Any]) -> bool:
        delay = self.random.choice(["0", "30 ms"])
        parameters = {"ids": [held.id], "tokens": [held.token], "lease": self.stage.lease, "delay": delay}
        call.ok(done=[row[0] for row in session.execute(CALLS[verb], parameters).fetchall()])
        return True

    def effect(self, held: Held) -> bool:
        call = self.recorder.invoke("effect", message=held.id)

        def work(session: ChaosConnection) -> bool:
            session.execute(EFFECT, (held.id, held.attempt, held.token, "plain"))
            call.ok()
            return True

        return bool(self.session.call(call, work))

    def complete_with_effect(self, held: Held) -> bool:
        call = self.recorder.invoke("complete", ids=[held.id], tokens=[held.token])

        def work(session: ChaosConnection) -> bool:
            with Transaction(session) as transaction:
                session.execute(EFFECT, (held.id, held.attempt, held.token, "atomic"))
                parameters = {"ids": [held.id], "tokens": [held.token]}
                done = session.execute(CALLS["complete"], parameters).fetchall()
                transaction.commit()
            call.ok(done=[row[0] for row in done])
            return True

        return bool(self.session.call(call, work))
