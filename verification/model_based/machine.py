"""The machine: any call of the queue, in any order, beside the model that says what the result must be."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from psycopg.types.json import Jsonb

from . import channels, settle
from . import enqueue as enqueues
from .model import leased
from .moments import Moments
from .sql import moment, span
from .states import SECOND
from .strategies import DAY, PLACES, delays, drafts, leases, limited, limits, numbers, places, reasons, whose

# More than two turns of the greatest weight.
TRICKLE = 12


class QueueMachine(Moments):
    """Calls of the queue as rules; the rules of Moments come with them."""

    def __init__(self) -> None:
        super().__init__()
        for place in PLACES:
            self.set_channel(place, {})

    @initialize(
        drafts=st.lists(drafts, min_size=3, max_size=8),
        some=limited,
        more=limited,
        names=st.sets(st.sampled_from("abcd")),
    )
    def begin_with(
        self, drafts: list[dict[str, Any]], some: dict[str, Any], more: dict[str, Any], names: set[str]
    ) -> None:
        """Some work and limits: it takes long to come to anything otherwise."""
        self.set_channel(("a", "q"), some)
        self.set_channel(("b", "q"), more)
        for draft in drafts:
            self.enqueue(draft, "delay")
        for name in names:
            self.fill([{**drafts[0], "place": (name, "q"), "due": None, "key": None}] * 4)

    # Channels and queues.

    @rule(place=places, limits=limits)
    def set_channel(self, place: tuple[str, str], limits: dict[str, Any]) -> None:
        interval = limits.get("release_interval")
        asked = {**limits, **({"release_interval": f"{interval} microseconds"} if interval else {})}
        answer = self.queue.one(
            "SELECT id, refusal FROM pgqueue_channel_set(%s, %s, %s)", *reversed(place), Jsonb(asked)
        )
        self.agree(answer, lambda: channels.channel_set(self.model, *place, limits, answer))

    @rule(place=places, verb=st.sampled_from(["channel_pause", "channel_resume", "channel_resume", "channel_release"]))
    def change_channel(self, place: tuple[str, str], verb: str) -> None:
        answer = self.queue.one(f"SELECT NULL, refusal FROM pgqueue_{verb}(%s, %s)", *reversed(place))
        self.agree(answer, lambda: getattr(channels, verb)(self.model, *place))

    @rule(verb=st.sampled_from(["queue_pause", "queue_resume", "queue_resume"]))
    def change_queue(self, verb: str) -> None:
        answer = self.queue.one(f"SELECT NULL, refusal FROM pgqueue_{verb}('q')")
        self.agree(answer, lambda: getattr(channels, verb)(self.model, "q"))

    # Enqueue.

    @rule(draft=drafts, way=st.sampled_from(["delay", "dequeue_at", "insert"]))
    def enqueue(self, draft: dict[str, Any], way: str) -> None:
        if way == "insert":
            plain = self.draft(**{**draft, "policy": (None, None, None)})
            answer = self.queue.insert(plain, self.model.now)
            self.agree(answer, lambda: enqueues.insert(self.model, plain, answer))
        else:
            made = self.draft(**draft)
            answer = self.queue.enqueue(made, relative=way == "delay", at=self.model.now)
            self.agree(answer, lambda: enqueues.enqueue(self.model, made, answer))

    @rule(drafts=st.lists(drafts, min_size=2, max_size=5), fill=st.booleans(), partial=st.booleans())
    def enqueue_many(self, drafts: list[dict[str, Any]], fill: bool, partial: bool) -> None:
        """``fill``: a backlog of one channel, of what the first is like. ``partial``: not all or none."""
        self.fill([{**drafts[0], "key": None}] * 16 if fill else drafts, partial)

    @rule(picks=st.lists(numbers, min_size=1, max_size=3))
    def redrive(self, picks: list[int]) -> None:
        if not self.model.dead:
            self.dead_letter([(0, "current")], True)
        known = [*self.model.dead, 10_000]
        self.redrive_letters([known[pick % len(known)] for pick in picks])

    def redrive_letters(self, ids: list[int]) -> None:
        answer = self.queue.rows("SELECT old_id, new_id, refusal FROM pgqueue_redrive(%s)", ids)
        self.agree(answer, lambda: enqueues.redrive(self.model, ids, answer))

    # Take.

    @rule(verb=st.sampled_from(["dequeue", "dequeue", "dequeue", "pop"]), queue=st.sampled_from("qqqr"),
          limit=st.sampled_from([1, 1, 2, 3, 10]), lease=leases, times=st.sampled_from([1, 1, 1, 6]))  # fmt: skip
    def take(self, verb: str, queue: str, limit: int, lease: int, times: int) -> None:
        for _ in range(times):
            self.take_once(verb, queue, limit, lease)

    @rule(limit=st.sampled_from([1, 2, 10]))
    def serve(self, limit: int) -> None:
        """Take as most calls do."""
        self.take_once("dequeue", "q", limit, 15 * SECOND)

    @rule()
    def take_turns(self) -> None:
        """All who may stand in the line, and it moves."""
        self.tick()
        self.take("dequeue", "q", 1, 15 * SECOND, 6)

    @rule(quiet=places, loud=places, draft=drafts)
    def trickle(self, quiet: tuple[str, str], loud: tuple[str, str], draft: dict[str, Any]) -> None:
        """A channel always has two messages more than are taken; another one has a single message."""
        for place in (quiet, loud):
            self.set_channel(place, {"max_concurrency": None, "max_size": None, "release_interval": None})
        self.take("pop", "q", 10, SECOND, 3)
        draft = {**draft, "key": None, "due": None, "max_attempts": 5}
        self.enqueue({**draft, "place": loud}, "delay")
        self.enqueue({**draft, "place": loud}, "delay")
        self.enqueue({**draft, "place": quiet, "priority": 0}, "delay")
        for _ in range(TRICKLE):
            self.enqueue({**draft, "place": loud}, "delay")
            self.take_once("pop", "q", 1, SECOND)

    @rule(drafts=st.lists(drafts, min_size=1, max_size=2), statements=st.sampled_from([1, 1, 2]), alike=st.booleans())
    def come_alone(self, drafts: list[dict[str, Any]], statements: int, alike: bool) -> None:
        """The line is emptied, then one statement brings a message or two, and another more urgent ones."""
        self.take("pop", "q", 10, SECOND, 2)
        place = drafts[0]["place"] if alike else None
        sent = [{**draft, "place": place or draft["place"], "due": None, "key": None} for draft in drafts]
        for step in range(statements):
            self.fill([{**draft, "priority": draft["priority"] + step} for draft in sent])
        self.take("dequeue", "q", 1, 15 * SECOND, 3)

    @rule(place=places, draft=drafts)
    def crowd(self, place: tuple[str, str], draft: dict[str, Any]) -> None:
        """A full channel refuses a message and a dead letter; then it has room."""
        draft = {**draft, "place": place, "key": None, "due": None}
        self.set_channel(place, {"max_concurrency": None, "max_size": None, "release_interval": None})
        self.enqueue({**draft, "max_attempts": 5}, "delay")
        self.take_once("dequeue", place[1], 10, 15 * SECOND)
        self.dead_letter([(0, "current"), (1, "current")], True)
        self.set_channel(place, {"max_size": 1, "full_policy": "error"})
        self.enqueue(draft, "delay")
        self.enqueue(draft, "delay")
        letters = [*self.model.dead][-3:]
        self.redrive_letters(letters)
        self.set_channel(place, {"max_size": None})
        self.redrive_letters(letters)

    # Settle.

    @rule(picks=whose, lease=leases, skip=st.booleans())
    def heartbeat(self, picks: list[tuple[int, str]], lease: int, skip: bool) -> None:
        pairs = self.pairs(picks)
        answer = self.queue.settle("heartbeat", pairs, lease=span(lease), skip_lost=skip)
        self.agree(answer, lambda: settle.heartbeat(self.model, pairs, lease, skip))

    @rule(picks=whose, result=st.sampled_from([None, 1]), skip=st.booleans(), cancelled=st.booleans())
    def complete(self, picks: list[tuple[int, str]], result: Any, skip: bool, cancelled: bool) -> None:
        pairs = self.pairs(picks)
        results = None if result is None else [Jsonb(result)] * len(pairs)
        answer = self.queue.settle("complete", pairs, results=results, skip_lost=skip, cancelled=cancelled)
        self.agree(answer, lambda: settle.complete(self.model, pairs, result, skip, cancelled))

    @rule(picks=whose, due=delays, absolute=st.booleans(), state=st.sampled_from([None, 3]), skip=st.booleans())
    def defer(self, picks: list[tuple[int, str]], due: int | None, absolute: bool, state: Any, skip: bool) -> None:
        pairs = self.pairs(picks)
        until = [moment(self.model.now + due)] * len(pairs) if absolute and due is not None else None
        pauses = [span(due)] * len(pairs) if not absolute and due is not None else None
        states = None if state is None else [Jsonb(state)] * len(pairs)
        answer = self.queue.settle("defer", pairs, until=until, delays=pauses, states=states, skip_lost=skip)
        self.agree(answer, lambda: settle.defer(self.model, pairs, due, state, skip))

    @rule(picks=whose, delay=delays, skip=st.booleans())
    def retry(self, picks: list[tuple[int, str]], delay: int | None, skip: bool) -> None:
        pairs = self.pairs(picks)
        pauses = None if delay is None else [span(delay)] * len(pairs)
        errors = [Jsonb({"type": "Error"})] * len(pairs)
        answer = self.queue.settle("retry", pairs, errors=errors, delays=pauses, skip_lost=skip)
        next_at = self.next_at if delay is None else lambda message: self.model.now + delay
        self.agree(answer, lambda: settle.retry(self.model, pairs, "failed", skip, next_at))

    @rule(picks=whose, skip=st.booleans())
    def dead_letter(self, picks: list[tuple[int, str]], skip: bool) -> None:
        pairs = self.pairs(picks)
        answer = self.queue.settle("dead_letter", pairs, reasons=["refused"] * len(pairs), skip_lost=skip)
        self.agree(answer, lambda: settle.dead_letter(self.model, pairs, "refused", skip))

    # Operators and maintenance.

    @rule(picks=st.lists(numbers, min_size=1, max_size=3), reason=reasons)
    def cancel(self, picks: list[int], reason: str) -> None:
        known = [*self.model.messages, *self.model.archive, *self.model.dead, 10_000]
        ids = sorted({known[pick % len(known)] for pick in picks})
        answer = self.queue.rows("SELECT id, outcome, refusal FROM pgqueue_cancel(%s, %s)", ids, reason)
        self.agree(answer, lambda: settle.cancel(self.model, ids, reason))

    @rule(place=places)
    def channel_purge(self, place: tuple[str, str]) -> None:
        answer = self.queue.one("SELECT messages, refusal FROM pgqueue_channel_purge(%s, %s)", *reversed(place))
        self.agree(answer, lambda: settle.channel_purge(self.model, *place))

    @rule()
    def sweep(self) -> None:
        answer = self.queue.rows("SELECT retried, poisoned, cancelled, promoted FROM pgqueue_sweep()")
        removed = self.removed()
        self.agree(answer, lambda: [settle.sweep(self.model, self.next_at, removed=removed)])
        self.turns.ticked(self.model)

    @rule()
    def tick(self) -> None:
        answer = self.queue.one("SELECT pgqueue_tick()")
        self.agree(answer, self.model.promote)
        self.turns.ticked(self.model)

    def removed(self) -> frozenset[int]:
        """Channels that have just gone. Other sessions of the server decide when one may."""
        left = {number for (number,) in self.queue.rows("SELECT id FROM pgqueue_channel")}
        return frozenset(self.model.channels.keys() - left)

    @rule(archive=st.sampled_from([None, 2 * DAY]), dead=st.sampled_from([None, SECOND]))
    def prune(self, archive: int | None, dead: int | None) -> None:
        query = "SELECT dead_letters_deleted, channels_removed FROM pgqueue_prune(%s, %s, 1)"
        answer = self.queue.rows(query, span(archive), span(dead))
        removed = self.removed()
        self.agree(answer, lambda: [settle.prune(self.model, archive, dead, removed)])

    def teardown(self) -> None:
        try:
            if self.sound:
                self.drain()
        finally:
            self.queue.session.rollback()

    def drain(self) -> None:
        """Bring each message to its end, with time and a worker."""
        while self.saved:
            self.end(undo=True)
        self.change_queue("queue_resume")
        for channel in [c for c in self.model.channels.values() if c.paused]:
            self.change_channel((channel.name, channel.queue), "channel_resume")
        self.advance(self.model.latest)
        self.prune(None, None)
        for _ in range(200):
            if not self.model.messages:
                break
            self.advance(max([self.model.now, *self.model.moments(), *self.model.busy.values()]))
            self.sweep()
            for queue in "qr":
                while self.take_once("dequeue", queue, 10, SECOND):
                    held = [(m.id, m.token or "") for m in leased(self.model)]
                    answer = self.queue.settle("complete", held)
                    self.agree(answer, partial(settle.complete, self.model, held, None, False, False))
        self.the_tables_are_as_the_model_says()
        assert not self.model.messages, "some messages never come to an end"
        self.advance(self.model.now + 3601 * SECOND)
        deadline = time.monotonic() + 30
        while settle.drained(self.model):
            self.prune(None, None)
            assert time.monotonic() < deadline, "a released channel never goes"
