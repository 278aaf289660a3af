"""Rules that call no function of the queue: the clock moves, a transaction begins or ends."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from .beside import Beside
from .fairness import Turns
from .states import SECOND
from .strategies import DAY, numbers


class Moments(Beside):
    """Each rule moves the clock of both sides, or is a step of a transaction of the queue and a copy of the model."""

    @rule(jump=st.sampled_from([0, 1000, SECOND, 3601 * SECOND, DAY, -1000, -SECOND, -300 * SECOND]))
    def jump(self, jump: int) -> None:
        self.set_clock(self.model.now + jump)

    @rule(pick=numbers, beside=st.sampled_from([0, 0, 1, -1]))
    def edge(self, pick: int, beside: int) -> None:
        """To the moment at which something expires or comes due, or a microsecond beside."""
        times = self.model.moments()
        edges = sorted({at for at in [*times, *self.model.busy.values()] if at > self.model.now})
        if edges:
            self.set_clock(edges[pick % len(edges)] + beside)

    @precondition(lambda self: not self.saved)
    @rule(isolation=st.sampled_from(["read committed", "read committed", "repeatable read", "serializable"]))
    def begin(self, isolation: str) -> None:
        self.queue.session.execute(f"BEGIN ISOLATION LEVEL {isolation}")
        self.isolation = isolation
        self.saved.append(self.model.copy())

    @precondition(lambda self: 0 < len(self.saved) < 3)
    @rule()
    def savepoint(self) -> None:
        self.queue.session.execute(f"SAVEPOINT s{len(self.saved)}")
        self.saved.append(self.model.copy())

    @precondition(lambda self: self.saved)
    @rule(undo=st.booleans())
    def end(self, undo: bool) -> None:
        saved = self.saved.pop()
        point = f"s{len(self.saved)}"
        if self.saved:
            self.queue.session.execute(f"ROLLBACK TO {point}" if undo else f"RELEASE {point}")
        else:
            self.queue.session.execute("ROLLBACK" if undo else "COMMIT")
            self.isolation = "read committed"
        if undo:
            self.model = self.model.rolled_back_to(saved)
            self.turns = Turns()

    def advance(self, now: int) -> None:
        """However far; `set_clock` keeps to the days that have partitions."""
        self.queue.set_clock(now)
        self.model.set_clock(now)
