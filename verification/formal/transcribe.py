"""Transcribe a history of verification/chaos for specs/LeaseTrace.tla: the fate of each message, by commits.

Nothing is judged here: the rows are written down in the model's words, and TLC says whether it could have done that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby

from verification.chaos.history import History, Row
from verification.chaos.history.events import LEASED, READY, SCHEDULED

STATUSES = {READY: "ready", LEASED: "leased", SCHEDULED: "scheduled"}
# `pop` is a dequeue and an archive in one; what is purged, or dropped by a full channel, is cancelled while it waits.
OUTCOMES = {
    "completed": "completed", "popped": "completed", "cancelled": "cancelled", "purged": "cancelled",
    "dropped": "cancelled",
}  # fmt: skip
NOBODYS = 0
# A token that no lease had, where only a holder's can be.
UNKNOWN = 999


@dataclass(frozen=True, slots=True)
class Start:
    """The row of a message before the first step."""

    status: str = "absent"
    attempts: int = 0
    max_attempts: int = 1
    token: int = NOBODYS


@dataclass(frozen=True, slots=True)
class Step:
    """A commit, as seen in the rows of one message, its place among those of the trace. Tokens are numbered as given.

    ``by``: the worker whose lease begins; ``late``: the lease of before had expired, by the clock of the server.
    """

    message: int
    status: str
    attempts: int
    token: int
    settled: int
    ends: tuple[tuple[str, int], ...]
    by: int = 0
    late: bool = False


@dataclass(frozen=True, slots=True)
class Trace:
    """``holders``: of each worker the message that it holds at the start, or 0; ``limit``: max_concurrency;
    ``messages``: their ids, in the order of ``rows``."""

    rows: tuple[Start, ...]
    holders: tuple[int, ...]
    steps: tuple[Step, ...]
    limit: int = 1
    messages: tuple[int, ...] = field(default=(), compare=False)


@dataclass(slots=True)
class Follower:
    """Follows one message. ``place``: among those of its trace; ``whole``: from its creation on. ``ordered``: in an
    ordered channel, where a message that waits for its next attempt is ready and held; the model calls it scheduled."""

    place: int = 1
    whole: bool = True
    status: str = "absent"
    attempts: int = 0
    max_attempts: int = 1
    token: str | None = None
    settled: str | None = None
    ends: list[tuple[str, int]] = field(default_factory=list)
    tokens: dict[str, int] = field(default_factory=dict)
    beating: bool = False
    ordered: bool = False

    def restart(self, place: int) -> None:
        """In a new trace, which knows of the lease that is held, and of nothing before."""
        self.place, self.whole, self.beating, self.settled = place, False, False, None
        self.tokens = {self.token: 1} if self.token else {}

    def start(self) -> Start:
        return Start(self.status, self.attempts, self.max_attempts, 1 if self.token else NOBODYS)

    def follow(self, rows: list[Row]) -> Iterator[Step]:
        """``rows``: those of one transaction."""
        born = next((row for row in rows if row.event == "created"), None)
        # The trigger that schedules what was inserted for later runs before the one that records the insert.
        flips = [row for row in rows if born and row.event == "changed" and row.seq < born.seq]
        gone = any(row.event == "gone" for row in rows)
        if born:
            yield self.become(born, STATUSES[(flips or [born])[-1].status or READY], born.attempts or 0)
        for row in rows:
            if row.event == "changed" and row not in flips:
                # A message that is changed and goes in one transaction is recorded by its going.
                if not (gone and row.was_status == row.status):
                    yield from self.change(row)
            elif row.event == "gone":
                yield self.end(row, [other for other in rows if other.event in ("archived", "dead")])
            elif row.event in ("archived", "dead") and not gone:
                yield self.end(row, [row], self.status)

    def change(self, row: Row) -> Iterator[Step]:
        status = STATUSES[row.status or READY]
        beats = status == self.status == "leased" and row.token == self.token
        waits = status != "leased" and (status, row.attempts) == (self.status, self.attempts)
        # The model knows no limits: a message that is set aside for one is ready until its lease.
        aside = status == "scheduled" and self.status == "ready" and row.attempts == self.attempts
        # One heartbeat is like the other, and of what waits the model knows no more.
        if (beats and self.beating) or waits or aside:
            return
        begins = status == "leased" and not beats
        if begins and row.token:
            self.tokens.setdefault(row.token, len(self.tokens) + 1)
        self.token, self.settled = row.token, row.settled_token
        if self.ordered and status == "ready" and row.was_status == LEASED and row.attempts == row.was_attempts:
            yield self.become(row, "scheduled", row.attempts or 0)
        yield self.become(row, status, row.attempts or 0, begins=begins)
        self.beating = beats

    def end(self, row: Row, outcomes: list[Row], status: str = "gone") -> Step:
        for outcome in outcomes:
            name = "dead" if outcome.event == "dead" else OUTCOMES.get(outcome.outcome or "", "unknown")
            self.ends.append((name, self.tokens.get(outcome.token or "", NOBODYS)))
        recorded = [attempts for outcome in outcomes if (attempts := outcome.attempts) is not None]
        self.token = None if status == "gone" else self.token
        return self.become(row, status, recorded[-1] if recorded else self.attempts)

    def become(self, row: Row, status: str, attempts: int, *, begins: bool = False) -> Step:
        self.status, self.attempts, self.beating = status, attempts, False
        self.max_attempts = row.max_attempts or self.max_attempts
        token = self.tokens.get(self.token, UNKNOWN) if self.token else NOBODYS
        late = row.was_expires_at is not None and row.at >= row.was_expires_at
        settled = self.tokens.get(self.settled, UNKNOWN if self.whole else NOBODYS) if self.settled else NOBODYS
        return Step(self.place, status, attempts, token, settled, tuple(self.ends), token if begins else 0, late)


def lives(history: History) -> Iterator[tuple[int, Trace]]:
    """Yield each message alone, from its creation to its end. A row after its end begins another life."""
    strict = in_order(history)
    followers: dict[int, Follower] = defaultdict(Follower)
    steps: dict[int, list[Step]] = defaultdict(list)
    for message, rows in commits(history.rows):
        followers[message].ordered = message in strict
        steps[message] += followers[message].follow(rows)
        if followers[message].status == "gone":
            yield message, life(message, steps.pop(message), followers.pop(message).max_attempts)
    for message, rest in steps.items():
        yield message, life(message, rest, followers[message].max_attempts)


def in_order(history: History) -> set[int | None]:
    """The messages of ordered channels."""
    strict = {row.channel for row in history.rows if row.event == "channel" and row.detail.get("ordered")}
    return {row.message for row in history.rows if row.event == "created" and row.channel in strict}


def life(message: int, steps: list[Step], max_attempts: int) -> Trace:
    # Each lease is of a worker of its own, numbered as its token.
    workers = max((step.by for step in steps), default=0)
    return Trace((Start(max_attempts=max_attempts),), (0,) * workers, tuple(steps), messages=(message,))


def commits(rows: Iterable[Row]) -> Iterator[tuple[int, list[Row]]]:
    """The rows of a message in a transaction, one after the other."""
    recorded = (
        row
        for row in rows
        if row.message is not None and row.event in {"created", "changed", "gone", "archived", "dead"}
    )
    for _, transaction in groupby(recorded, key=lambda row: (row.committed, row.xid)):
        together: dict[int, list[Row]] = defaultdict(list)
        for row in transaction:
            together[row.message or 0].append(row)
        yield from together.items()
