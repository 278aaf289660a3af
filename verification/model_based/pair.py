"""The machine of two sessions: who sees what, who waits for whom, who passes whom by."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from psycopg.types.json import Jsonb

from . import enqueue as enqueues
from . import settle, take
from .enqueue import Draft
from .model import Model, leased
from .pair_operators import PairOperators
from .sides import CHANNELS
from .sql import Refusal, span
from .states import SECOND
from .strategies import numbers

who = st.integers(0, 1)
names = st.sampled_from([*CHANNELS][:5])
whose = st.lists(st.tuples(numbers, st.sampled_from(["current", "current", "stale", "forged"])), min_size=1, max_size=3)


class PairMachine(PairOperators):
    """Each rule is a call of one of the two, or the begin or end of its transaction."""

    @initialize(names=st.lists(names, min_size=2, max_size=6))
    def begin_with(self, names: list[str]) -> None:
        for name in names[:4]:
            self.enqueue(0, name, 0, None, None)

    # The rules.

    @rule(n=who, name=names, priority=st.sampled_from([0, 0, 5]), due=st.sampled_from([None, None, SECOND]),
          key=st.sampled_from([None, None, "k"]))  # fmt: skip
    def enqueue(self, n: int, name: str, priority: int, due: int | None, key: str | None) -> None:
        self.numbered += 1
        draft = Draft(name, "default", self.numbered, priority, due, max_attempts=2, key=key)
        view, other = self.sides[n].view, self.other(n)
        channel = view.channel(name, "default").id
        known = key is not None and any(m.key == key for m in view.live(channel))
        unseen = [m for m in other.view.live(channel) if m.key == key and m.id not in self.committed.messages]
        waits = not known and (bool(key is not None and unseen) or name in other.fills)
        answer = self.call(
            n,
            lambda queue: queue.enqueue(draft, relative=True, at=view.now),
            lambda model, answer: enqueues.enqueue(model, draft, answer),
            waits,
        )
        limited = view.channel(name, "default").max_size is not None
        said = answer.code if isinstance(answer, Refusal) else answer[0][1]
        if limited and self.sides[n].open and said in ("created", "PGQ04"):
            self.sides[n].fills |= {name}

    @rule(n=who, limit=st.sampled_from([1, 2, 10]))
    def dequeue(self, n: int, limit: int) -> None:
        self.take_once(n, limit)

    def take_once(self, n: int, limit: int) -> int:
        def expect(model: Model, answer: Any) -> Any:
            queue = self.sides[n].queue
            back = take.Back("default", *queue.brought_back(queue.looked(model)), self.next_at(n))
            take.dequeue(model, "default", limit, 15 * SECOND, answer, back)
            return answer

        return len(self.call(n, lambda queue: queue.take("dequeue", "default", limit, 15 * SECOND), expect, False))

    @rule(n=who, picks=whose, skip=st.booleans())
    def complete(self, n: int, picks: list[tuple[int, str]], skip: bool) -> None:
        pairs = self.pairs(n, picks)
        self.call(
            n,
            lambda queue: queue.settle("complete", pairs, skip_lost=skip),
            lambda model, _: settle.complete(model, pairs, None, skip, False),
            self.waits(n, pairs),
        )

    @rule(n=who, picks=whose, skip=st.booleans())
    def heartbeat(self, n: int, picks: list[tuple[int, str]], skip: bool) -> None:
        """With ``skip`` no call waits: messages that the other has locked are still held, and are passed by."""
        pairs = self.pairs(n, picks)
        locked = [pair for pair in pairs if self.waits(n, [pair])]
        free = [pair for pair in pairs if pair not in locked]
        # A lease of its own, so that the row is another one than before.
        lease = 20 * SECOND + self.numbered
        self.numbered += 1

        def expect(model: Model, _: Any) -> list[tuple[int, bool]]:
            passed_by = [(number, model.messages[number].cancelled) for number, _ in locked]
            return sorted(settle.heartbeat(model, free, lease, skip) + passed_by)

        self.call(
            n,
            lambda queue: queue.settle("heartbeat", pairs, lease=span(lease), skip_lost=skip),
            expect,
            bool(locked) and not skip,
        )

    @rule(n=who, picks=whose, skip=st.booleans(), due=st.sampled_from([None, SECOND]))
    def defer(self, n: int, picks: list[tuple[int, str]], skip: bool, due: int | None) -> None:
        pairs = self.pairs(n, picks)
        delays = None if due is None else [span(due)] * len(pairs)
        self.call(
            n,
            lambda queue: queue.settle("defer", pairs, delays=delays, skip_lost=skip),
            lambda model, _: settle.defer(model, pairs, due, None, skip),
            self.waits(n, pairs),
        )

    @rule(n=who, picks=whose, skip=st.booleans())
    def retry(self, n: int, picks: list[tuple[int, str]], skip: bool) -> None:
        pairs = self.pairs(n, picks)
        self.call(
            n,
            lambda queue: queue.settle("retry", pairs, errors=[Jsonb({})] * len(pairs), skip_lost=skip),
            lambda model, _: settle.retry(model, pairs, "failed", skip, self.next_at(n)),
            self.waits(n, pairs),
        )

    @rule(n=who, picks=whose, skip=st.booleans())
    def dead_letter(self, n: int, picks: list[tuple[int, str]], skip: bool) -> None:
        pairs = self.pairs(n, picks)
        self.call(
            n,
            lambda queue: queue.settle("dead_letter", pairs, reasons=["no"] * len(pairs), skip_lost=skip),
            lambda model, _: settle.dead_letter(model, pairs, "no", skip),
            self.waits(n, pairs),
        )

    @rule(n=who, picks=st.lists(numbers, min_size=1, max_size=2))
    def cancel(self, n: int, picks: list[int]) -> None:
        known = [*self.committed.messages, *self.sides[n].view.messages, 10_000]
        ids = sorted({known[pick % len(known)] for pick in picks})
        waits = any(number in self.other(n).touched and number in self.committed.messages for number in ids)
        self.call(
            n,
            # A call that waits here gives up by an error, after which the transaction goes on from a savepoint only.
            lambda queue: queue.rows("SELECT id, outcome, refusal FROM pgqueue_cancel(%s, 'no')", ids, raises=waits),
            lambda model, _: settle.cancel(model, ids, "no"),
            waits,
        )

    @rule(n=who, name=names)
    def channel_purge(self, n: int, name: str) -> None:
        self.call(
            n,
            lambda queue: queue.one("SELECT messages, refusal FROM pgqueue_channel_purge('default', %s)", name),
            lambda model, _: settle.channel_purge(model, name, "default"),
            False,
        )

    @rule(n=who)
    def sweep(self, n: int) -> None:
        query = "SELECT retried, poisoned, cancelled, promoted FROM pgqueue_sweep()"
        ticks = not self.other(n).ticks
        self.call(
            n, lambda queue: queue.rows(query), lambda model, _: [settle.sweep(model, self.next_at(n), ticks)], False
        )
        self.sides[n].ticks |= ticks and self.sides[n].open

    @rule(n=who)
    def tick(self, n: int) -> None:
        ticks = not self.other(n).ticks
        self.call(
            n, lambda queue: queue.one("SELECT pgqueue_tick()"), lambda model, _: model.promote() if ticks else 0, False
        )
        self.sides[n].ticks |= ticks and self.sides[n].open

    @rule(jump=st.sampled_from([1000, SECOND, 16 * SECOND]))
    def pass_time(self, jump: int) -> None:
        now = self.committed.now + jump
        self.queues[0].set_clock(now)
        for model in (self.committed, *(side.view for side in self.sides)):
            model.set_clock(now)

    @rule(n=who, undo=st.booleans())
    def transaction(self, n: int, undo: bool) -> None:
        """Begin, or end it."""
        side = self.sides[n]
        if not side.open:
            side.queue.session.execute("BEGIN")
            side.open = True
        elif undo:
            side.queue.session.execute("ROLLBACK")
            issued = side.view.issued
            side.view = self.committed.copy()
            side.view.issued = issued
            self.close(n)
        else:
            side.queue.session.execute("COMMIT")
            self.merge(n)

    def teardown(self) -> None:
        try:
            if self.sound:
                self.drain()
        finally:
            for queue in self.queues:
                queue.session.rollback()

    def drain(self) -> None:
        for n, side in enumerate(self.sides):
            if side.open:
                self.transaction(n, True)
        for _ in range(20):
            if not self.committed.messages:
                break
            self.pass_time(3600 * SECOND)
            self.sweep(0)
            while self.take_once(0, 10):
                self.complete_all()
        self.each_sees_what_it_should()
        assert not self.committed.messages, "some messages never come to an end"

    def complete_all(self) -> None:
        held = [(m.id, m.token or "") for m in leased(self.sides[0].view)]
        self.call(
            0,
            lambda queue: queue.settle("complete", held),
            lambda model, _: settle.complete(model, held, None, False, False),
            False,
        )
