"""The machine of order keys: two sessions with transactions, beside a model of each key's messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from psycopg.types.json import Jsonb

from .sql import Queue, Refusal, span

WAITING, LEASED, DEAD = "waiting", "leased", "dead"
ENQUEUE = "SELECT id, refusal FROM pgqueue_enqueue('work', p_order_key => %s, p_priority => %s)"
DEQUEUE = "SELECT id, token::text FROM pgqueue_dequeue(p_limit => %s, p_lease => interval '1 day')"
DISCARD = "SELECT id FROM pgqueue_discard(%s) WHERE outcome = 'discarded'"
REDRIVE = "SELECT old_id, new_id, refusal FROM pgqueue_redrive(%s)"
UNRELEASED = "SELECT next_id FROM pgqueue_find_unreachable() WHERE problem = 'unreleased'"
who = st.integers(0, 1)
pick = st.integers(0, 11)


@dataclass(frozen=True, slots=True)
class Keyed:
    """``key`` None: it waits for no other message. ``place``: among those of its key. ``delivered``: it was leased, and
    is not settled."""

    id: int
    key: str | None
    place: int
    state: str = WAITING
    delivered: bool = False
    token: str = ""


@dataclass(slots=True)
class Side:
    """A session. ``changes``: what its open transaction has done; None: the message is gone."""

    queue: Queue
    open: bool = False
    changes: dict[int, Keyed | None] = field(default_factory=dict)


class KeyMachine(RuleBasedStateMachine):
    """``queues`` are given by the test: two sessions on one database. ``steps`` counts those of all runs."""

    queues: tuple[Queue, Queue]
    steps = 0

    def __init__(self) -> None:
        super().__init__()
        for queue in self.queues:
            queue.session.rollback()
        self.queues[0].reset()
        self.ask(self.queues[0], "SELECT id, refusal FROM pgqueue_channel_set('default', 'default', %s)", Jsonb({}))
        self.sides = [Side(queue) for queue in self.queues]
        self.committed: dict[int, Keyed] = {}
        self.now = 0

    def ask(self, queue: Queue, query: str, *parameters: Any) -> Any:
        """Return the rows of a call, which is never refused here, and never waits."""
        answer = queue.rows(query, *parameters)
        assert not isinstance(answer, Refusal), answer
        return answer

    def view(self, n: int) -> dict[int, Keyed]:
        """Return what the session sees: what is committed, and its own changes."""
        seen = {**self.committed, **self.sides[n].changes}
        return {number: message for number, message in seen.items() if message is not None}

    def live(self, n: int, key: str | None) -> list[Keyed]:
        """Return the messages of the key that the session sees, in their order."""
        found = [message for message in self.view(n).values() if message.key == key and message.state != DEAD]
        return sorted(found, key=lambda message: (not message.delivered, message.place))

    def change(self, n: int, changes: dict[int, Keyed | None]) -> None:
        side = self.sides[n]
        side.changes |= changes
        if not side.open:
            self.publish(n)

    def publish(self, n: int) -> None:
        """Commit the changes of the session."""
        for number, message in self.sides[n].changes.items():
            self.committed.pop(number, None)
            if message is not None:
                self.committed[number] = message
        self.sides[n].changes = {}

    def free(self, n: int, states: Iterable[str]) -> list[Keyed]:
        """Return the messages that the session sees and the other one has not changed."""
        others = self.sides[1 - n].changes
        return [each for number, each in sorted(self.view(n).items()) if each.state in states and number not in others]

    def chosen(self, n: int, places: Sequence[int], *states: str) -> list[Keyed]:
        found = self.free(n, states)
        return sorted({found[place % len(found)] for place in places}, key=lambda each: each.id) if found else []

    # Calls.

    @rule(n=who, key=st.sampled_from(["k", "k", "l", None]), priority=st.sampled_from([0, 0, 5]))
    def enqueue(self, n: int, key: str | None, priority: int) -> None:
        [(number,)] = self.ask(self.sides[n].queue, ENQUEUE, key, priority)
        self.change(n, {number: Keyed(number, key, number)})

    @rule(n=who, limit=st.sampled_from([1, 2, 10]))
    def dequeue(self, n: int, limit: int) -> None:
        self.now += 1
        side, alone = self.sides[n], not any(each.open for each in self.sides)
        side.queue.set_clock(self.now)
        answer = self.ask(side.queue, DEQUEUE, limit)
        before = side.open
        side.open = True
        for number, token in answer:
            self.lease(n, number, token)
        side.open = before
        self.change(n, {})
        if alone and len(answer) < limit:
            for key in {message.key for message in self.committed.values()}:
                self.all_that_may_run_runs(key)

    def lease(self, n: int, number: int, token: str) -> None:
        message = self.view(n).get(number)
        assert message is not None, f"message {number} is not there"
        assert message.state == WAITING, f"message {number} is {message.state}"
        assert number not in self.sides[1 - n].changes, f"message {number} is locked"
        if message.key is not None:
            first = self.live(n, message.key)[0]
            assert first.id == number, f"message {number} of {message.key} came before {first.id}"
            others = [each for each in self.live(1 - n, message.key) if each.id not in self.sides[n].changes]
            beside = [each.id for each in others if each.delivered and each.id != number]
            assert not beside, f"message {number} of {message.key} came beside {beside}"
        self.change(n, {number: replace(message, state=LEASED, delivered=True, token=token)})

    def all_that_may_run_runs(self, key: str | None) -> None:
        """No message waits whose turn it is."""
        for message in self.live(0, key)[: None if key is None else 1]:
            assert message.state == LEASED, f"message {message.id} of {key} may run, and does not"

    @rule(n=who, picks=st.lists(pick, min_size=1, max_size=3))
    def complete(self, n: int, picks: list[int]) -> None:
        self.complete_these(n, self.chosen(n, picks, LEASED))

    def complete_these(self, n: int, held: list[Keyed]) -> None:
        if held:
            self.settle(n, "complete", held)
            self.change(n, dict.fromkeys((each.id for each in held), None))

    def settle(self, n: int, verb: str, held: list[Keyed], **more: Any) -> Any:
        answer = self.sides[n].queue.settle(verb, [(each.id, each.token) for each in held], **more)
        assert not isinstance(answer, Refusal), answer
        return answer

    @rule(n=who, place=pick)
    def retry(self, n: int, place: int) -> None:
        for each in self.chosen(n, [place], LEASED):
            [(_, outcome)] = self.settle(n, "retry", [each], errors=[Jsonb({})], delays=[span(0)])
            after = replace(each, state=WAITING) if outcome == "retried" else self.dead(each)
            self.change(n, {each.id: after})

    @rule(n=who, place=pick)
    def defer(self, n: int, place: int) -> None:
        for each in self.chosen(n, [place], LEASED):
            self.settle(n, "defer", [each], delays=[span(0)])
            self.change(n, {each.id: replace(each, state=WAITING)})

    @rule(n=who, place=pick)
    def dead_letter(self, n: int, place: int) -> None:
        for each in self.chosen(n, [place], LEASED):
            self.settle(n, "dead_letter", [each], reasons=["refused"])
            self.change(n, {each.id: self.dead(each)})

    @rule(n=who, places=st.lists(pick, min_size=1, max_size=2))
    def discard(self, n: int, places: list[int]) -> None:
        """Messages in any state; those that the other session holds are passed by."""
        known = self.chosen(n, places, WAITING, LEASED)
        gone = {number for (number,) in self.ask(self.sides[n].queue, DISCARD, [each.id for each in known])}
        self.change(n, {each.id: self.dead(each) for each in known if each.id in gone})

    def dead(self, message: Keyed) -> Keyed:
        return replace(message, state=DEAD, delivered=False)

    @rule(n=who, place=pick)
    def redrive(self, n: int, place: int) -> None:
        for each in self.chosen(n, [place], DEAD):
            [(old, new)] = self.ask(self.sides[n].queue, REDRIVE, [each.id])
            self.change(n, {old: None, new: Keyed(new, each.key, each.place)})

    @rule(n=who)
    def tick(self, n: int) -> None:
        self.ask(self.sides[n].queue, "SELECT pgqueue_tick()")

    @rule(n=who, undo=st.booleans())
    def transaction(self, n: int, undo: bool) -> None:
        """Begin, or end it."""
        side = self.sides[n]
        if not side.open:
            side.queue.session.execute("BEGIN")
        elif undo:
            side.queue.session.execute("ROLLBACK")
            side.changes = {}
        else:
            side.queue.session.execute("COMMIT")
            self.publish(n)
        side.open = not side.open

    @rule(n=who)
    def come_beside_a_settlement(self, n: int) -> None:
        """A message comes while the last one of its key is being settled: chance takes long to come to that."""
        for place, side in enumerate(self.sides):
            if side.open:
                self.transaction(place, False)
        self.enqueue(n, "k", 5)
        while len(self.live(n, "k")) > 1:
            self.dequeue(n, 10)
            self.complete_these(n, self.free(n, [LEASED]))
        self.enqueue(n, "k", 5)
        self.dequeue(n, 10)
        self.transaction(n, False)
        self.complete_these(n, self.free(n, [LEASED]))
        self.enqueue(1 - n, "k", 5)
        self.dequeue(1 - n, 10)
        self.transaction(n, False)

    # The invariant.

    @invariant()
    def no_message_waits_for_ever(self) -> None:
        type(self).steps += 1
        if not any(side.open for side in self.sides):
            assert self.ask(self.queues[0], UNRELEASED) == []

    def teardown(self) -> None:
        for side in self.sides:
            side.queue.session.rollback()
