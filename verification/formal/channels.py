"""From a recorded history to traces of whole channels: all leases of a channel, against its max_concurrency."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from verification.chaos.history import History, Row

from .transcribe import Follower, Start, Step, Trace, commits

# Messages that are followed together: each state of TLC has all of them.
TOGETHER = 16


def channels(history: History) -> Iterator[tuple[str, Trace]]:
    """Traces of each channel whose max_concurrency was never edited; edits in flight are left to invariant I6."""
    limits: dict[int, set[int | None]] = defaultdict(set)
    names: dict[int, str] = {}
    for row in history.rows:
        if row.event == "channel" and row.channel is not None:
            limits[row.channel].add(row.detail.get("max_concurrency"))
            names[row.channel] = row.key or ""
    of = {row.message: row.channel for row in history.rows if row.event == "created"}
    strict = {row.channel for row in history.rows if row.event == "channel" and row.detail.get("ordered")}
    windows = {
        channel: Window(given, channel in strict)
        for channel, [*one] in limits.items()
        if len(one) == 1 and (given := one[0])
    }
    for message, rows in commits(history.rows):
        window = windows.get(of.get(message) or 0)
        if window is not None:
            for trace in window.follow(message, rows):
                yield names[of[message] or 0], trace
    for channel, window in windows.items():
        if window.steps:
            yield names[channel], window.trace()


@dataclass(slots=True)
class Window:
    """A part of the life of a channel: so many messages that TLC can follow them, with the leases of before."""

    limit: int
    ordered: bool = False
    followers: dict[int, Follower] = field(default_factory=dict)
    rows: list[Start] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)
    # The message that each worker holds.
    holding: list[int] = field(default_factory=list)
    began: tuple[int, ...] = ()

    def follow(self, message: int, rows: list[Row]) -> Iterator[Trace]:
        """A trace, when this message is one too many for it."""
        if message not in self.places:
            if len(self.places) == TOGETHER:
                yield self.trace()
                self.renew()
            self.add(message, next((row.max_attempts for row in rows if row.event == "created"), None))
        for step in self.followers[message].follow(rows):
            self.steps.append(replace(step, by=self.worker(message)) if step.by else step)
            if step.status != "leased":
                self.holding = [0 if held == message else held for held in self.holding]

    def add(self, message: int, max_attempts: int | None = None) -> None:
        follower = self.followers.setdefault(message, Follower(ordered=self.ordered))
        follower.max_attempts = max_attempts or follower.max_attempts
        self.places[message] = len(self.places) + 1
        follower.restart(self.places[message])
        self.rows.append(follower.start())

    def worker(self, message: int) -> int:
        """Give the message to a worker that holds nothing, as far as the tables show, and return its number."""
        if 0 not in self.holding:
            self.holding.append(0)
        self.holding[free := self.holding.index(0)] = message
        return free + 1

    def trace(self) -> Trace:
        places = tuple(self.places.get(message, 0) for message in self.began)
        holders = (*places, *[0] * (len(self.holding) - len(places)))
        return Trace(tuple(self.rows), holders, tuple(self.steps), self.limit, tuple(self.places))

    def renew(self) -> None:
        self.rows, self.steps, self.places = [], [], {}
        self.holding = [message for message in self.holding if message]
        for message in self.holding:
            self.add(message)
        self.began = tuple(self.holding)
        self.followers = {message: each for message, each in self.followers.items() if each.status != "gone"}
