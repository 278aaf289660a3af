"""The queue beside the model: what every rule needs, and what must hold after each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine, invariant

from . import enqueue as enqueues
from . import take
from .enqueue import Draft
from .fairness import Turns
from .model import Model, leased
from .sql import NEXT_AT, Queue, Refusal
from .states import SECOND, Message, Refused
from .strategies import DAY, FORGED


class Beside(RuleBasedStateMachine):
    """``queue`` is given by the test. ``steps`` counts those of all runs. ``saved``: the model at each savepoint."""

    queue: Queue
    steps = 0

    def __init__(self) -> None:
        super().__init__()
        self.queue.reset()
        self.model = Model()
        self.turns = Turns()
        self.saved: list[Model] = []
        self.isolation = "read committed"
        self.numbered = 0
        self.sound = True

    def agree(self, answer: Any, expect: Callable[[], Any]) -> None:
        """The queue answers what the model does, or refuses what it refuses."""
        self.sound = False
        try:
            expected = expect()
        except Refused as error:
            expected = error
        if isinstance(expected, Refused):
            refused = isinstance(answer, Refusal) and answer.code in expected.codes
            assert refused, f"{answer}, and not {sorted(expected.codes)}"
        else:
            assert answer == expected, f"{answer}, and not {expected}"

    def draft(self, place: tuple[str, str], policy: tuple[Any, ...], **more: Any) -> Draft:
        self.numbered += 1
        backoff, factor, longest = policy
        return Draft(*place, self.numbered, backoff=backoff, factor=factor, longest=longest, **more)

    def pairs(self, picks: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
        """Ids and tokens: of leases that are held, that were, and of none."""
        if not leased(self.model) and picks[0][1] == "current":
            self.take_once("dequeue", "q", 3, 15 * SECOND)
        held = [(m.id, m.token or "") for m in leased(self.model)]
        stale = [pair for pair in self.model.issued if pair not in held]
        found: dict[int, str] = {}
        for number, kind in picks:
            pool = {"current": held, "stale": stale}.get(kind, held or self.model.issued) or [(number, FORGED)]
            message, token = pool[number % len(pool)]
            if kind == "forged":
                token = FORGED
            elif kind == "crossed" and held:
                token = held[(number + 1) % len(held)][1]
            found.setdefault(message, token)
        return sorted(found.items())

    def next_at(self, message: Message) -> int:
        """Return the time that chance decided, within bounds, from the queue itself."""
        least, most = message.pause()
        at = self.queue.one(NEXT_AT, message.id, message.id)
        assert at is not None, f"message {message.id} is gone"
        assert self.model.now + least <= at <= self.model.now + most + 1
        return at

    @invariant()
    def the_tables_are_as_the_model_says(self) -> None:
        type(self).steps += 1
        self.sound = False
        tables = self.queue.tables()
        assert not isinstance(tables, Refusal), tables
        sizes = dict(tables.pop("sizes"))
        expected = self.model.view()
        for name, rows in tables.items():
            assert rows == expected[name], f"{name}: {rows}, and not {expected[name]}"
        counted = self.model.sizes()
        for channel, size in sizes.items():
            assert channel not in counted or size == counted[channel], f"channel {channel} holds {counted[channel]}"
        assert not self.queue.mended
        self.turns.look(self.model)
        self.sound = True

    def fill(self, drafts: list[dict[str, Any]], partial: bool = False) -> None:
        made = [self.draft(**draft) for draft in drafts]
        answer = self.queue.enqueue_many(made, partial)
        self.agree(answer, lambda: enqueues.enqueue_many(self.model, made, answer, partial))

    def take_once(self, verb: str, queue: str, limit: int, lease: int) -> int:
        self.sound = False
        looked = self.queue.looked(self.model)
        answer = self.queue.take(verb, queue, limit, lease)
        if self.isolation != "read committed":
            assert isinstance(answer, Refusal)
            assert answer.code == "PGQ07"
            return 0
        assert not isinstance(answer, Refusal), answer
        back = take.Back(queue, *self.queue.brought_back(looked), self.next_at)
        if verb == "pop":
            take.pop(self.model, queue, limit, answer, back)
        else:
            take.dequeue(self.model, queue, limit, lease, answer, back)
        self.turns.taken(self.model, queue, limit, answer)
        return len(answer)

    def set_clock(self, now: int) -> None:
        if -DAY // 2 < now < 3 * DAY:
            self.queue.set_clock(now)
            self.model.set_clock(now)
