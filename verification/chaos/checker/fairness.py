"""Channels take turns."""

from __future__ import annotations

from collections import Counter, defaultdict

from verification.chaos.history import History
from verification.chaos.history.events import READY

from .limits import Settings, queue_settings, settings
from .lives import Lives, is_grant, transactions
from .verdict import Findings

JAIN = 0.99
# Messages for each of the equal channels, on average: shares of fewer are noise.
ENOUGH = 50
LIMITS = ("max_concurrency", "release_interval")


def i10_every_channel_has_its_turn(history: History, lives: Lives) -> Findings:
    """a channel with messages waits for a bounded number of others; equals get equal shares"""
    # In a queue that serves by share a channel at its share loses turns; I24 has its bound.
    sharing = {
        name
        for name, queue in queue_settings(history).items()
        if any(value.get("fairness") == "share" or value.get("max_share") for value in queue.values)
    }
    channels = {
        number: value
        for number, value in settings(history).items()
        if value.values[-1].get("queue", "default") not in sharing
    }
    free = {channel for channel, value in channels.items() if unlimited(value)}
    turn, calls = history.run.get("batch", 1), history.run.get("concurrent_dequeues", 8)
    bound = (len(channels) - 1 + calls) * turn
    ready: dict[int, set[int]] = defaultdict(set)
    waiting_since: dict[int, int] = {}
    services = 0
    shares = Shares(free, history.run.get("equal_channels", []), channels)
    for transaction in transactions(history.rows):
        served: Counter[int] = Counter()
        for row in transaction:
            if row.channel is None or row.message is None or row.event not in ("created", "changed", "gone"):
                continue
            if row.channel not in channels:
                continue
            if is_grant(row):
                served[row.channel] += 1
            if row.status == READY and row.event != "gone":
                ready[row.channel].add(row.message)
                waiting_since.setdefault(row.channel, services)
            else:
                ready[row.channel].discard(row.message)
            if not ready[row.channel] and (row.detail or {}).get("waits_for") is not None:
                # It had its turn, and was set aside; the same call may make it ready again.
                waiting_since.pop(row.channel, None)
        for channel, count in served.items():
            waited = services - waiting_since.get(channel, services)
            if channel in free:
                name, xid = channels[channel].name, transaction[0].xid
                late = f"channel {name} waited for {waited} messages of others until {xid}, {bound} allowed"
                yield late if waited > bound else None
            shares.serve(channel, count)
        services += sum(served.values())
        for channel in served:
            waiting_since[channel] = services
        for channel in [channel for channel in waiting_since if not ready[channel]]:
            del waiting_since[channel]
            yield from shares.end(channel)
    yield from shares.end()


def unlimited(value: Settings) -> bool:
    return not any(each.get(limit) is not None for each in value.values for limit in LIMITS)


class Shares:
    """Channels that began with the same backlog, until the first of all has nothing more."""

    def __init__(self, free: set[int], names: list[str], channels: dict[int, Settings]) -> None:
        self._equal = {channel for channel in free if channels[channel].name in names}
        self._served: Counter[int] = Counter()
        self._over = not self._equal

    def serve(self, channel: int, count: int) -> None:
        if channel in self._equal and not self._over:
            self._served[channel] += count

    def end(self, channel: int | None = None) -> list[str | None]:
        """Return the violation of Jain's index, once, if enough messages were served. ``channel``: it is empty."""
        if self._over or not self._served or (channel is not None and channel not in self._equal):
            return []
        self._over = True
        counts = [self._served[channel] for channel in self._equal]
        if sum(counts) < ENOUGH * len(counts):
            return []
        index = sum(counts) ** 2 / (len(counts) * sum(count**2 for count in counts))
        problem = f"equal channels got unequal shares: Jain's index {index:.4f}, from {min(counts)} to {max(counts)}"
        return [problem if index < JAIN else None]
