"""Operators in one of the two sessions: they pass by all that the other has touched, and say so."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule
from psycopg.types.json import Jsonb

from . import enqueue as enqueues
from . import operate
from .sides import Sides
from .sql import moment
from .states import SECOND
from .strategies import numbers

who = st.integers(0, 1)
EDIT = "SELECT outcome, refusal FROM pgqueue_edit(%s, %s)"
some = st.lists(numbers, min_size=1, max_size=3)


class PairOperators(Sides):
    """Rules of `pair.PairMachine`."""

    def known(self, n: int, picks: list[int]) -> list[int]:
        known = [*self.committed.messages, *self.sides[n].view.messages, 10_000]
        return [known[pick % len(known)] for pick in picks]

    @rule(n=who, picks=some, due=st.sampled_from([None, None, SECOND]))
    def reschedule(self, n: int, picks: list[int], due: int | None) -> None:
        ids = self.known(n, picks)
        at = None if due is None else self.committed.now + due
        given = None if at is None else moment(at)
        self.call(
            n,
            lambda queue: queue.rows("SELECT id, outcome, refusal FROM pgqueue_reschedule(%s, %s)", ids, given),
            lambda model, _: operate.reschedule(model, ids, at),
            False,
        )

    @rule(n=who, picks=some)
    def lease_release(self, n: int, picks: list[int]) -> None:
        ids = self.known(n, picks)
        self.call(
            n,
            lambda queue: queue.rows("SELECT * FROM pgqueue_lease_release(%s)", ids),
            lambda model, _: operate.lease_release(model, ids),
            False,
        )

    @rule(n=who, picks=some)
    def discard(self, n: int, picks: list[int]) -> None:
        ids = self.known(n, picks)
        self.call(
            n,
            lambda queue: queue.rows("SELECT * FROM pgqueue_discard(%s)", ids),
            lambda model, _: operate.discard(model, ids),
            False,
        )

    @rule(n=who)
    def redrive(self, n: int) -> None:
        """All that it sees; so that no full channel is in the way, elsewhere."""
        ids = sorted(self.sides[n].view.dead)
        query = "SELECT old_id, new_id, refusal FROM pgqueue_redrive(%s, 'other')"
        self.call(
            n,
            lambda queue: queue.rows(query, ids),
            lambda model, answer: enqueues.redrive(model, ids, answer, "other"),
            False,
        )

    @rule(n=who, first=st.sampled_from([None, "delete_dead", "redrive"]))
    def delete_dead(self, n: int, first: str | None) -> None:
        """All that it sees. ``first``: what the other does with some before, maybe in a transaction that is open."""
        if not self.committed.dead:
            self.discard(n, [0, 1, 2])
        ids = [*sorted(self.sides[n].view.dead), 10_000]
        if first == "redrive":
            self.redrive(1 - n)
        elif first:
            self.delete_these(1 - n, ids[:1])
        self.delete_these(n, ids)

    def delete_these(self, n: int, ids: list[int]) -> None:
        alone = not self.other(n).deletes
        self.call(
            n,
            lambda queue: queue.rows("SELECT * FROM pgqueue_delete_dead(%s)", ids),
            lambda model, _: operate.delete_dead(model, ids, alone),
            False,
        )
        self.sides[n].deletes |= alone and self.sides[n].open

    @rule(n=who, pick=numbers)
    def edit(self, n: int, pick: int) -> None:
        [number] = self.known(n, [pick])
        self.numbered += 1
        self.call(
            n,
            lambda queue: queue.one(EDIT, number, Jsonb({"n": self.numbered})),
            lambda model, _: operate.edit(model, number, self.numbered),
            False,
        )
