"""The order within a channel, and time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate, pairwise
from operator import itemgetter

from verification.chaos.history import History, Row
from verification.chaos.history.events import READY

from .limits import settings
from .lives import Lives, is_grant, transactions
from .verdict import Findings

Key = tuple[int, int, int]
# News of a channel are folded into the line within a tick (0.2 s, or more if the machine is busy); a message that is
# younger may be overtaken. A run may say `folded_within`.
FOLDED_AFTER = 1_000_000
HOLD = ("lock", "timeouts", "exhaust", "crash", "full disk", "promotion", "migration")
# A transaction of a client that died, or that lost its connection, ends some time later.
LINGERS = 15_000_000
# A call asks for a locked limit for 10 ms, or longer on a busy machine, before it leaves the message ready.
HANDS = 300_000
# A commit is visible to others after its time: a server with thirty busy sessions needed up to 28 ms.
VISIBLE = 100_000


def key(row: Row) -> Key:
    return -(row.priority or 0), row.dequeue_at or 0, row.message or 0


class Waiting:
    """The ready messages of a channel, by their place in its order."""

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.since: dict[int, tuple[Key, int]] = {}

    def add(self, row: Row) -> None:
        self.remove(row.message)
        assert row.message is not None
        self.since[row.message] = key(row), row.committed
        insort(self.keys, key(row))

    def remove(self, message: int | None) -> None:
        known = self.since.pop(message, None) if message is not None else None
        if known is not None:
            del self.keys[bisect_left(self.keys, known[0])]


def i9_first_in_first_out(history: History, lives: Lives) -> Findings:
    """no message of a channel is leased while one before it is ready and free"""
    waiting: dict[int, Waiting] = defaultdict(Waiting)
    held = Periods([*locked(history), *lingered(history)])
    strict = strict_channels(history)
    following = successors(lives)
    # A dequeue passes them over while another transaction holds their key; I21 has their order.
    keyed = {row.message for row in history.rows if row.event == "created" and (row.detail or {}).get("order_key")}
    handlers = {row.message: (row.detail or {}).get("handler") for row in history.rows if row.event == "created"}
    given: dict[int, int | None] = {}
    folded = history.run.get("folded_within", FOLDED_AFTER)
    for transaction in transactions(history.rows):
        granted: dict[int, tuple[Key, Row]] = {}
        for row in transaction:
            if row.channel is None or row.event not in ("created", "changed", "gone"):
                continue
            if row.status == READY and row.event != "gone" and row.message not in keyed:
                waiting[row.channel].add(row)
            else:
                waiting[row.channel].remove(row.message)
            if row.event == "changed" and (row.detail or {}).get("waits_for") is not None:
                given[row.channel] = row.message  # its shared limit is full: it holds an ordered channel
            if is_grant(row):
                again = row.channel in strict and given.get(row.channel) == row.message
                given[row.channel] = row.message
                if again:
                    continue  # it goes before those that are more urgent
                taken = place(lives, row), row
                granted[row.channel] = max(granted.get(row.channel, taken), taken, key=itemgetter(0))
        for channel, (stood, row) in granted.items():
            if held.meet(row.at - folded, row.committed):
                continue
            yield overtaken(waiting[channel], stood, row, following, folded, handlers)


def place(lives: Lives, grant: Row) -> Key:
    """Where the call found the message. It may have been leased and given back since the call began, and stand behind
    others now: a call that looks for messages and then locks them gets the newest version of each that it has found.
    It found the message where it stood before that lease, if it did not see the lease's commit yet."""
    began = grant.leased_at or grant.at
    assert grant.message is not None
    found = [
        key(row)
        for row, after in pairwise(lives[grant.message].rows)
        if row.status == READY and row.seq < grant.seq and after.committed > began - VISIBLE
    ]
    return min(found, default=key(grant))


class Periods:
    """Intervals of time that may overlap."""

    def __init__(self, periods: list[tuple[int, int]]) -> None:
        periods.sort()
        self._begins = [begin for begin, _ in periods]
        self._latest = list(accumulate((end for _, end in periods), max))

    def meet(self, since: int, until: int) -> bool:
        begun = bisect_right(self._begins, until)
        return begun > 0 and self._latest[begun - 1] >= since


def locked(history: History) -> Iterator[tuple[int, int]]:
    """Faults that lock messages, or let transactions linger that have locked some."""
    for info in history.happened("fault"):
        if info.fields.get("kind") in HOLD:
            yield info.at, info.at + info.fields.get("lasts", 0)


def lingered(history: History) -> Iterator[tuple[int, int]]:
    """Dequeues in long transactions that were rolled back: what they had locked seemed ready, and was not free."""
    for op in history.of("dequeue"):
        if op.args.get("lingers") and op.result != "ok":
            yield op.began, (op.ended or op.began) + LINGERS


def successors(lives: Lives) -> dict[int, dict[int, Row]]:
    """Return the row that follows each row of a message, by message and seq."""
    return {
        life.message: {row.seq: after for row, after in zip(life.rows, life.rows[1:], strict=False)}
        for life in lives.values()
    }


def overtaken(
    waiting: Waiting,
    stood: Key,
    row: Row,
    following: dict[int, dict[int, Row]],
    folded: int,
    handlers: dict[int | None, str | None],
) -> str | None:
    began = row.leased_at or row.at
    # A worker asks for what it can start: without a free slot for plain handlers, for coroutines only.
    chosen = (row.detail or {}).get("chosen")
    for earlier in waiting.keys[: bisect_left(waiting.keys, stood)]:
        message = earlier[2]
        if chosen is not None and handlers.get(message) != chosen:
            continue
        since = waiting.since[message][1]
        if since > began - folded:
            continue
        after = next((next_row for next_row in following[message].values() if next_row.committed > row.committed), None)
        if after is not None and (after.leased_at or after.at) <= row.committed:
            continue  # another call had it in its hands
        if after is not None and after.was_status == READY != after.status and after.leased_at is None:
            aside = after.at <= row.committed + HANDS
        else:
            aside = after is not None and after.status == READY and after.at <= row.committed + HANDS
        if aside:
            continue  # so it had, and left it ready or set it aside, because a limit was locked or full
        waited = (began - since) / 1e6
        return f"message {row.message} was leased in {row.xid}, before message {message}, ready for {waited:.3f} s"
    return None


def strict_channels(history: History) -> dict[int, str]:
    """The channels that were ordered all the time, with their names."""
    channels = settings(history)
    return {number: c.name for number, c in channels.items() if all(value.get("ordered") for value in c.values)}


def i18_strict_order(history: History, lives: Lives) -> Findings:
    """in an ordered channel no message is leased before the one that was leased last is settled for good"""
    strict = strict_channels(history)
    last: dict[int, int] = {}
    for row in history.rows:
        if row.channel not in strict or row.message is None:
            continue
        before = last.get(row.channel)
        if row.event == "gone" and row.message == before:
            del last[row.channel]
        elif is_grant(row):
            last[row.channel] = row.message
            yield (
                f"channel {strict[row.channel]}: message {row.message} was leased in {row.xid}, "
                f"before message {before} was settled"
                if before not in (None, row.message)
                else None
            )


def i11_not_before_its_time(history: History, lives: Lives) -> Findings:
    """no message is leased before its dequeue_at"""
    for lease in lives.leases():
        early = (lease.granted.dequeue_at or 0) - lease.granted.at
        yield f"{lease}: {early / 1e6:.6f} s too early, in {lease.granted.xid}" if early > 0 else None
