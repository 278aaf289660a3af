"""The machine and its operators: what they do to messages and dead letters, whatever state these are in."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule
from psycopg.types.json import Jsonb

from . import operate
from .machine import QueueMachine
from .sql import moment
from .states import SECOND
from .strategies import PLACES, delays, numbers, reasons

RESCHEDULE = "SELECT id, outcome, refusal FROM pgqueue_reschedule(%s, %s)"
VERBS = ["reschedule", "lease_release", "discard", "delete_dead", "edit", "queue_purge", "overflow"]
picks = st.lists(numbers, min_size=1, max_size=3)


class OperatorMachine(QueueMachine):
    """A machine of its own: more rules leave too few steps for what happens most."""

    def known(self, picks: list[int]) -> list[int]:
        """Ids of what is live, archived or dead, and of nothing."""
        known = [*self.model.messages, *self.model.archive, *self.model.dead, 10_000]
        return [known[pick % len(known)] for pick in picks]

    @rule(verb=st.sampled_from(VERBS), picks=picks, reason=reasons, due=delays | st.just(-1_000_000))
    def operate(self, verb: str, picks: list[int], reason: str, due: int | None) -> None:
        """One rule for all, so that the others keep their share."""
        given: dict[str, list[Any]] = {"reschedule": [due], "lease_release": [reason], "discard": [reason]}
        more = given.get(verb, [])
        getattr(self, verb)(picks, *more)

    def reschedule(self, picks: list[int], due: int | None) -> None:
        ids = self.known(picks)
        at = None if due is None else self.model.now + due
        answer = self.queue.rows(RESCHEDULE, ids, None if at is None else moment(at))
        self.agree(answer, lambda: operate.reschedule(self.model, ids, at))

    def lease_release(self, picks: list[int], reason: str) -> None:
        ids = self.known(picks)
        answer = self.queue.rows("SELECT * FROM pgqueue_lease_release(%s, %s)", ids, reason)
        self.agree(answer, lambda: operate.lease_release(self.model, ids))

    def discard(self, picks: list[int], reason: str) -> None:
        ids = self.known(picks)
        answer = self.queue.rows("SELECT * FROM pgqueue_discard(%s, %s)", ids, reason)
        self.agree(answer, lambda: operate.discard(self.model, ids))

    def delete_dead(self, picks: list[int]) -> None:
        known = [*self.model.dead, *[*self.model.messages][:1], 10_000]
        ids = [known[pick % len(known)] for pick in picks]
        answer = self.queue.rows("SELECT * FROM pgqueue_delete_dead(%s)", ids)
        self.agree(answer, lambda: operate.delete_dead(self.model, ids))

    def edit(self, picks: list[int]) -> None:
        [number] = self.known(picks[:1])
        self.numbered += 1
        answer = self.queue.one(
            "SELECT outcome, refusal FROM pgqueue_edit(%s, %s)", number, Jsonb({"n": self.numbered})
        )
        self.agree(answer, lambda: operate.edit(self.model, number, self.numbered))

    def queue_purge(self, picks: list[int]) -> None:
        """A part of a queue, or all of it."""
        queue, limit = "qqrx"[picks[0] % 4], 10_000 if len(picks) > 1 else picks[0]
        answer = self.queue.one("SELECT messages, refusal FROM pgqueue_queue_purge(%s, %s)", queue, limit)
        # Not from the archive: a channel may have nothing archived.
        gone = self.model.messages.keys() - {number for (number,) in self.queue.rows("SELECT id FROM pgqueue_message")}
        self.agree(answer, lambda: operate.queue_purge(self.model, queue, limit, gone))

    def overflow(self, picks: list[int]) -> None:
        """A small channel that makes room, and more than it holds: it takes long to come to that otherwise."""
        place = PLACES[picks[0] % len(PLACES)]
        policy = ["drop_oldest", "drop_oldest", "replace"][picks[-1] % 3]
        self.set_channel(place, {"max_size": 3, "full_policy": policy})
        for priority, due in [(0, -SECOND), (5, None), (0, -2 * SECOND), (0, SECOND), (5, -SECOND), (0, None)]:
            draft = {"place": place, "priority": priority, "due": due, "max_attempts": 5, "key": None}
            self.enqueue({**draft, "policy": (SECOND, 1.0, None)}, "delay")
