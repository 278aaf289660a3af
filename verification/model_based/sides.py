"""Two sessions with transactions of their own, each beside a model of what it sees: what is committed, and what it has
done itself. A call that has to wait is refused after a moment (55P03, or PGQ06 for room on a
channel); nothing else may be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine, invariant
from psycopg.types.json import Jsonb

from . import channels
from .model import Model, leased
from .sql import NEXT_AT, Queue, Refusal
from .states import Message, Refused
from .strategies import FORGED

WAITED, BUSY = "55P03", "PGQ06"
CHANNELS: dict[str, dict[str, Any]] = {
    "a": {}, "b": {}, "few": {"max_concurrency": 2}, "small": {"max_size": 4},
    "newest": {"max_size": 2, "full_policy": "drop_oldest"}, "other": {},
}  # fmt: skip


@dataclass(slots=True)
class Side:
    """A session. ``touched``: messages whose rows it has locked; ``fills``: channels whose count it holds;
    ``ticks``, ``deletes``: the other side may not."""

    queue: Queue
    view: Model = field(default_factory=Model)
    open: bool = False
    touched: frozenset[int] = frozenset()
    fills: frozenset[str] = frozenset()
    ticks: bool = False
    deletes: bool = False


class Sides(RuleBasedStateMachine):
    """``queues`` are given by the test: two sessions on one database."""

    queues: tuple[Queue, Queue]
    steps = 0

    def __init__(self) -> None:
        super().__init__()
        for queue in self.queues:
            queue.session.rollback()
        self.queues[0].reset()
        self.sides = [Side(queue) for queue in self.queues]
        self.committed = Model()
        self.numbered = 0
        self.sound = True
        for name, limits in CHANNELS.items():
            number = self.queues[0].one(
                "SELECT id, refusal FROM pgqueue_channel_set('default', %s, %s)", name, Jsonb(limits)
            )
            channels.channel_set(self.committed, name, "default", limits, number)
        for side in self.sides:
            side.view = self.committed.copy()

    # Used by the rules.

    def call(self, n: int, ask: Callable[[Queue], Any], expect: Callable[[Model, Any], Any], waits: bool) -> Any:
        """The session does what its model does; or waits, and nothing is done."""
        self.sound = False
        side = self.sides[n]
        before = side.view.copy()
        side.view.locked = self.other(n).touched if self.other(n).open else None
        answer = ask(side.queue)
        if waits:
            assert isinstance(answer, Refusal), f"{answer}: it should have waited"
            assert answer.code in (WAITED, BUSY), answer
            return answer
        try:
            expected = expect(side.view, answer)
        except Refused as error:
            expected = error
        if isinstance(expected, Refused):
            refused = isinstance(answer, Refusal) and answer.code in expected.codes
            assert refused, f"{answer}, and not {sorted(expected.codes)}"
            side.view = before
            return answer
        assert answer == expected, f"{answer}, and not {expected}"
        side.touched |= changed(before, side.view)
        self.committed.issued = side.view.issued
        if not side.open:
            self.merge(n)
        return answer

    def other(self, n: int) -> Side:
        return self.sides[1 - n]

    def merge(self, n: int) -> None:
        """Show the writes of the session to all."""
        side = self.sides[n]
        for model in (self.committed, self.other(n).view):
            for name in ("messages", "archive", "dead"):
                mine, theirs = getattr(side.view, name), getattr(model, name)
                for number in side.touched:
                    theirs.pop(number, None)
                    if number in mine:
                        theirs[number] = mine[number]
            model.issued = side.view.issued
        self.close(n)

    def close(self, n: int) -> None:
        side = self.sides[n]
        side.open = side.ticks = side.deletes = False
        side.touched, side.fills = frozenset(), frozenset()

    def dequeue(self, n: int, limit: int) -> None:
        raise NotImplementedError("the machine has this rule")

    def pairs(self, n: int, picks: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
        view = self.sides[n].view
        if not leased(view) and picks[0][1] == "current":
            self.dequeue(n, 3)
        held = [(m.id, m.token or "") for m in leased(self.sides[n].view)]
        found: dict[int, str] = {}
        for number, kind in picks:
            pool = (held if kind == "current" else self.committed.issued) or [(number, FORGED)]
            message, token = pool[number % len(pool)]
            found.setdefault(message, FORGED if kind == "forged" else token)
        return sorted(found.items())

    def waits(self, n: int, pairs: Sequence[tuple[int, str]]) -> bool:
        """Return whether the other has touched one of them, if the row that all see is the caller's."""
        touched, rows = self.other(n).touched, self.committed.messages
        return any(number in touched and number in rows and rows[number].token == token for number, token in pairs)

    def next_at(self, n: int) -> Callable[[Message], int]:
        def known(message: Message) -> int:
            at = self.sides[n].queue.one(NEXT_AT, message.id, message.id)
            assert at is not None, f"message {message.id} is gone"
            return at

        return known

    @invariant()
    def each_sees_what_it_should(self) -> None:
        type(self).steps += 1
        self.sound = False
        for side in self.sides:
            tables, expected = side.queue.tables(), side.view.view()
            sizes = dict(tables.pop("sizes"))
            for name, rows in tables.items():
                assert rows == expected[name], f"{name}: {rows}, and not {expected[name]}"
            if not any(other.open for other in self.sides):
                assert all(size == self.committed.sizes().get(channel, size) for channel, size in sizes.items())
            assert not side.queue.mended
        few = self.few(0) | self.few(1)
        assert len(few) <= 2, "max_concurrency"
        self.sound = True

    def few(self, n: int) -> set[int]:
        """Return the leases of the limited channel that it knows, but those that the other gave back or settled."""
        view, other = self.sides[n].view, self.other(n)
        ended = {number for number in other.touched if number not in {m.id for m in leased(other.view)}}
        return {m.id for m in leased(view) if view.name_of(m)[1] == "few"} - ended


def changed(before: Model, after: Model) -> frozenset[int]:
    """Ids of what is not as it was."""
    parts = [(getattr(before, name), getattr(after, name)) for name in ("messages", "archive", "dead")]
    return frozenset(n for old, new in parts for n in old.keys() | new.keys() if old.get(n) is not new.get(n))
