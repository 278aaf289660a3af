"""Shares of capacity: fairness="share" and max_share of queues."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from verification.chaos.history import History, Row
from verification.chaos.history.events import LEASED, READY

from .limits import Settings, queue_settings, settings
from .lives import Lives, is_grant, transactions
from .order import FOLDED_AFTER, Periods, locked
from .verdict import Findings

LIMITS = ("max_concurrency", "release_interval")


@dataclass(slots=True)
class Taken:
    """A transaction that leased messages of a queue.

    ``running``: all leases of the queue after it; ``counted``: these, and those that the gate of the queue listed,
    which the call has counted; ``weights``: of the channels of the queue, the smallest and the largest one in force
    meanwhile; ``ready``: when the ready messages of each channel were committed.
    """

    queue: Settings
    granted: list[Row]
    running: dict[int, int]
    counted: dict[int, int]
    weights: dict[int, tuple[int, int]]
    ready: dict[int, dict[int, int]]
    began: int = field(init=False)
    committed: int = field(init=False)

    def __post_init__(self) -> None:
        self.began = min(row.leased_at or row.at for row in self.granted)
        self.committed = self.granted[0].committed

    @property
    def xid(self) -> int:
        return self.granted[0].xid

    @property
    def channels(self) -> set[int]:
        return {row.channel for row in self.granted if row.channel is not None}


def i24_shares(history: History, lives: Lives) -> Findings:
    """no channel gets more than its weighted share of the leases while one below its share waits"""
    channels = settings(history)
    held = Periods(list(locked(history)))
    folded = history.run.get("folded_within", FOLDED_AFTER)
    # How many messages a call asks for at most.
    asked = history.run.get("largest_call", 1000)
    # Only messages that nothing holds up but the share.
    free = {number for number, known in channels.items() if not any(map(limited, known.values))}
    plain = {row.message for row in history.rows if row.event == "created" and is_plain(row) and row.channel in free}
    for taken in takes(history, channels):
        fair = all(value == "share" for value in taken.queue.between("fairness", taken.began, taken.committed))
        if not fair or held.meet(taken.began - folded, taken.committed):
            continue
        waiting = {
            channel
            for channel, ready in taken.ready.items()
            if channel in free
            and any(
                message in plain and since < taken.began - folded and stayed(lives[message].rows, taken.committed)
                for message, since in ready.items()
            )
        }
        for channel in sorted(taken.channels):
            yield ahead(taken, channel, waiting, asked, channels)


def ahead(taken: Taken, channel: int, waiting: set[int], asked: int, channels: dict[int, Settings]) -> str | None:
    """Compare with the largest share that the channel may have had, and with the smallest ones of those that wait."""
    mine = Counter(row.channel for row in taken.granted)
    before = {number for number, count in taken.counted.items() if count > mine[number]}
    total = sum(taken.counted.values())
    # The call may have asked for more than it got.
    most = taken.queue.most("max_concurrency", taken.began, taken.committed)
    largest = max(total, min(total - len(taken.granted) + asked, most or total + asked))
    least = sum(taken.weights[number][0] for number in before | waiting | {channel})
    share = ceiling(largest * taken.weights[channel][1], least)
    if taken.running[channel] <= share:
        return None
    all_of_them = sum(weights[1] for weights in taken.weights.values())
    poor = [
        number
        for number in sorted(waiting - {channel})
        if taken.counted[number] < ceiling(total * taken.weights[number][0], all_of_them)
    ]
    if not poor:
        return None
    return (
        f"channel {channels[channel].name} has {taken.running[channel]} of {total} leases after transaction "
        f"{taken.xid}, {share} allowed while channel {channels[poor[0]].name} with {taken.counted[poor[0]]} waits"
    )


def ceiling(number: int, divisor: int) -> int:
    return -(-number // divisor)


def i25_max_share(history: History, lives: Lives) -> Findings:
    """no channel gets more leases than max_share of the places that the max_concurrency of its queue allows"""
    channels = settings(history)
    for taken in takes(history, channels):
        places = taken.queue.most("max_concurrency", taken.began, taken.committed)
        shares = taken.queue.between("max_share", taken.began, taken.committed)
        known = [Fraction(str(value)) for value in shares if value is not None]
        if places is None or len(known) < len(shares):
            continue
        allowed = max(1, int(max(known) * places))
        for channel in sorted(taken.channels):
            count = taken.running[channel]
            told = f"channel {channels[channel].name}: {count} leases after transaction {taken.xid}, {allowed} allowed"
            yield told if count > allowed else None


def takes(history: History, channels: dict[int, Settings]) -> Iterator[Taken]:
    """Yield what each transaction leased, of queues that have had a row."""
    queues = queue_settings(history)
    queue_of = {number: known.values[-1].get("queue", "default") for number, known in channels.items()}
    channel_of: dict[int, int] = {}
    running: dict[str, set[int]] = defaultdict(set)
    ready: dict[str, dict[int, dict[int, int]]] = defaultdict(lambda: defaultdict(dict))
    for transaction in transactions(history.rows):
        granted: dict[str, list[Row]] = defaultdict(list)
        listed: dict[str, list[int]] = {}
        for row in transaction:
            if row.event == "gate" and row.key is not None:
                listed[row.key] = row.detail["held"]
            if row.channel is None or row.message is None or row.event not in ("created", "changed", "gone"):
                continue
            name = queue_of.get(row.channel, "default")
            channel_of[row.message] = row.channel
            ready[name][row.channel].pop(row.message, None)
            if row.status == READY and row.event != "gone":
                ready[name][row.channel][row.message] = row.committed
            if is_grant(row):
                running[name].add(row.message)
                granted[name].append(row)
            elif row.event == "gone" or (row.event == "changed" and row.status != LEASED):
                running[name].discard(row.message)
        for name, rows in granted.items():
            if name in queues:
                counted = running[name] | {message for message in listed.get(name, []) if message in channel_of}
                began, committed = rows[0].leased_at or rows[0].at, rows[0].committed
                weights = {
                    number: extremes(channels[number], began, committed)
                    for number, queue in queue_of.items()
                    if queue == name and channels[number].times[0] <= committed
                }
                yield Taken(
                    queues[name], rows, by_channel(running[name], channel_of), by_channel(counted, channel_of),
                    weights, ready[name],
                )  # fmt: skip


def by_channel(messages: Iterable[int], channel_of: dict[int, int]) -> Counter[int]:
    return Counter(channel_of[message] for message in messages)


def extremes(channel: Settings, since: int, until: int) -> tuple[int, int]:
    """Return the smallest and the largest weight in force at some moment of that time."""
    weights = [value or 1 for value in channel.between("weight", since, until)]
    return min(weights), max(weights)


def limited(value: dict[str, object]) -> bool:
    return bool(value.get("ordered")) or any(value.get(name) is not None for name in LIMITS)


def is_plain(row: Row) -> bool:
    """Whether the message has neither a shared limit, nor a breaker, nor an order key."""
    detail = row.detail or {}
    return not (detail.get("limits") or detail.get("guarded") or detail.get("order_key"))


def stayed(rows: Iterable[Row], until: int) -> bool:
    """Whether no other transaction had the message in its hands at that time."""
    after = next((row for row in rows if row.committed > until), None)
    return after is None or (after.leased_at or after.at) > until
