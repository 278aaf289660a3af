"""Limits of channels and queues, and shared limits, at every commit."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from verification.chaos.history import History, Row
from verification.chaos.history.events import LEASED

from .lives import Lives, is_grant, transactions
from .verdict import Findings

# A commit is visible to others a moment after its time: the server writes it down first.
VISIBLE_AFTER = 1_000_000


@dataclass(slots=True)
class Settings:
    """The limits in a channel's row, commit by commit."""

    name: str = "?"
    times: list[int] = field(default_factory=list)
    values: list[dict[str, Any]] = field(default_factory=list)

    def between(self, name: str, since: int, until: int) -> list[Any]:
        """Values in force at some moment of that time. A change is seen by calls that look after its commit."""
        first = max(0, bisect_right(self.times, since - VISIBLE_AFTER) - 1)
        last = bisect_right(self.times, until)
        return [value.get(name) for value in self.values[first : max(last, first + 1)]]

    def most(self, name: str, since: int, until: int) -> int | None:
        """None: there was no limit."""
        values = self.between(name, since, until)
        known = [value for value in values if value is not None]
        return max(known) if len(known) == len(values) and known else None


def settings(history: History) -> dict[int, Settings]:
    found: dict[int, Settings] = defaultdict(Settings)
    for row in history.rows:
        if row.event == "channel" and row.channel is not None:
            channel = found[row.channel]
            channel.name = row.key or "?"
            channel.times.append(row.committed)
            channel.values.append(row.detail)
    return found


def queue_settings(history: History) -> dict[str, Settings]:
    """The settings of queues that have had a row. Before its first row a queue had none."""
    found: dict[str, Settings] = {}
    for row in history.rows:
        if row.event == "queue" and row.key is not None:
            queue = found.setdefault(row.key, Settings(row.key, [0], [{}]))
            queue.times.append(row.committed)
            queue.values.append(row.detail)
    return found


def i6_concurrency(history: History, lives: Lives) -> Findings:
    """no lease is given above the limit in force, nor on a paused channel"""
    channels = settings(history)
    held: dict[int, set[int]] = defaultdict(set)
    for transaction in transactions(history.rows):
        granted: list[Row] = []
        for row in transaction:
            if row.channel is None or row.message is None:
                continue
            if is_grant(row):
                held[row.channel].add(row.message)
                granted.append(row)
            elif row.event == "gone" or (row.event == "changed" and row.status != 2):
                held[row.channel].discard(row.message)
        for row in granted:
            assert row.channel is not None
            limit = channels[row.channel].most("max_concurrency", row.leased_at or row.at, row.committed)
            if limit is None:
                continue
            running = len(held[row.channel])
            yield (
                f"channel {channels[row.channel].name}: {running} leases after transaction {row.xid}, {limit} allowed"
                if running > limit
                else None
            )


def i19_queue_concurrency(history: History, lives: Lives) -> Findings:
    """no lease is given above the limit of the whole queue, nor in a paused queue"""
    queues = queue_settings(history)
    queue_of = {number: known.values[-1].get("queue", "default") for number, known in settings(history).items()}
    held: dict[str, set[int]] = defaultdict(set)
    for transaction in transactions(history.rows):
        granted: dict[str, Row] = {}
        for row in transaction:
            if row.channel is None or row.message is None:
                continue
            name = queue_of.get(row.channel, "default")
            if is_grant(row):
                held[name].add(row.message)
                granted[name] = row
            elif row.event == "gone" or (row.event == "changed" and row.status != LEASED):
                held[name].discard(row.message)
        for name, row in granted.items():
            if name not in queues:
                continue
            limit = queues[name].most("max_concurrency", row.leased_at or row.at, row.committed)
            if limit is not None:
                running = len(held[name])
                told = f"queue {name}: {running} leases after transaction {row.xid}, {limit} allowed"
                yield told if running > limit else None


def i20_shared_concurrency(history: History, lives: Lives) -> Findings:
    """no lease is given above the max_concurrency of a shared limit in force, nor while the limit is paused"""
    for limit, row, held in shared_leases(history):
        most = limit.most("max_concurrency", row.leased_at or row.at, row.committed)
        if most is not None:
            told = f"limit {limit.name}: {len(held)} leases after transaction {row.xid}, {most} allowed"
            yield told if len(held) > most else None


def i23_shared_cost(history: History, lives: Lives) -> Findings:
    """the leases of a shared limit cost no more than its max_cost; a message that costs more than it runs alone"""
    costs = {row.message: (row.detail or {}).get("cost", 1) for row in history.rows if row.event == "created"}
    for limit, row, held in shared_leases(history):
        most = limit.most("max_cost", row.leased_at or row.at, row.committed)
        if most is not None:
            cost = sum(costs[message] for message in held)
            told = f"limit {limit.name}: leases cost {cost} after transaction {row.xid}, {most} allowed"
            yield told if cost > most and len(held) > 1 else None


def shared_leases(history: History) -> Iterator[tuple[Settings, Row, set[int]]]:
    """Yield, after each transaction that gave leases of a shared limit: the limit, one of these, and all that run."""
    limits: dict[int, Settings] = defaultdict(Settings)
    limits_of: dict[int, list[int]] = {}
    for row in history.rows:
        if row.event == "limit":
            limit = limits[row.detail["id"]]
            limit.name = row.key or "?"
            limit.times.append(row.committed)
            limit.values.append(row.detail)
        elif row.event == "created" and row.message is not None:
            limits_of[row.message] = (row.detail or {}).get("limits", [])
    held: dict[int, set[int]] = defaultdict(set)
    for transaction in transactions(history.rows):
        granted: dict[int, Row] = {}
        for row in transaction:
            for shared in limits_of.get(row.message or 0, []):
                if is_grant(row):
                    held[shared].add(row.message or 0)
                    granted.setdefault(shared, row)
                elif row.event == "gone" or (row.event == "changed" and row.status != LEASED):
                    held[shared].discard(row.message or 0)
        for shared, row in granted.items():
            yield limits[shared], row, held[shared]


def i7_release_interval(history: History, lives: Lives) -> Findings:
    """leases of a channel keep the distance of its release_interval, but for its burst"""
    channels = settings(history)
    taken: dict[int, list[Row]] = defaultdict(list)
    for lease in lives.leases():
        if lease.granted.channel is not None:
            taken[lease.granted.channel].append(lease.granted)
    for channel, rows in taken.items():
        values = channels[channel].values
        if not values or not values[0].get("release_interval"):
            continue
        # With changing rates: the shortest interval and the largest burst that ever were in force.
        interval = min(value.get("release_interval") or 0 for value in values)
        burst = max(value.get("release_burst") or 1 for value in values)
        rows.sort(key=lambda row: row.leased_at or 0)
        earliest: int | None = None
        for place, row in enumerate(rows):
            # The last of any n messages comes (n - burst) intervals after the first, at least.
            shifted = (row.leased_at or 0) - place * interval
            if earliest is not None and shifted - earliest < (1 - burst) * interval:
                missing = ((1 - burst) * interval - (shifted - earliest)) / 1e6
                yield f"channel {channels[channel].name}: message {row.message} was leased {missing:.6f} s too early"
            else:
                yield None
            earliest = shifted if earliest is None else max(earliest, shifted)


def i8_size(history: History, lives: Lives) -> Findings:
    """never more live messages than max_size; who was refused, or dropped, was so for a reason"""
    channels = settings(history)
    live: dict[int, int] = defaultdict(int)
    course: dict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for transaction in transactions(history.rows):
        touched: dict[int, bool] = {}
        for row in transaction:
            if row.channel is not None and row.event in ("created", "gone"):
                live[row.channel] += 1 if row.event == "created" else -1
                touched[row.channel] = touched.get(row.channel, False) or row.event == "created"
        for channel, grew in touched.items():
            times, counts = course[channel]
            times.append(transaction[0].committed)
            counts.append(live[channel])
            limit = channels[channel].most("max_size", min(row.at for row in transaction), transaction[0].committed)
            if limit is not None and grew:
                over = live[channel] > limit
                where = f"channel {channels[channel].name}, transaction {transaction[0].xid}"
                yield f"{where}: {live[channel]} messages live, {limit} allowed" if over else None
    yield from refusals(history, channels, course)
    yield from drops(history, channels)


def refusals(
    history: History, channels: dict[int, Settings], course: dict[int, tuple[list[int], list[int]]]
) -> Findings:
    names = {value.name: channel for channel, value in channels.items()}
    for op in history.of("enqueue", "enqueue_many", "enqueue_in_transaction"):
        if op.result != "fail" or op.value.get("error") != "channel full" or op.ended is None:
            continue
        channel = names[op.args["channel"]]
        times, counts = course[channel]
        first = max(0, bisect_left(times, op.began - VISIBLE_AFTER) - 1)
        most = max(counts[first : bisect_right(times, op.ended)], default=0)
        limits = [value for value in channels[channel].between("max_size", op.began, op.ended) if value is not None]
        asked = len(op.args["keys"])
        wrong = not limits or most + asked <= min(limits)
        yield f"{op}: {asked} refused as too many, {most} were live at most, {limits} allowed" if wrong else None


def drops(history: History, channels: dict[int, Settings]) -> Findings:
    """A message that a full channel drops has waited, and leaves for another message, by the policy of the channel."""
    for transaction in transactions(history.rows):
        dropped = {row.message for row in transaction if row.event == "archived" and row.outcome == "dropped"}
        came = {row.channel for row in transaction if row.event == "created"}
        for row in transaction if dropped else []:
            if row.event != "gone" or row.message not in dropped or row.channel is None:
                continue
            policies = {values.get("full_policy") for values in channels[row.channel].values}
            where = f"channel {channels[row.channel].name}: message {row.message} was dropped by transaction {row.xid}"
            if row.was_status == LEASED:
                yield f"{where}, while it was leased"
            elif row.channel not in came or not policies & {"drop_oldest", "replace"}:
                yield f"{where}, for nothing"
            else:
                yield None
