"""Turns: how often others were served while a channel that stands in the line was not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from .model import Model
from .take import Lease, must


@dataclass(slots=True)
class Turns:
    """The bound of docs/explanation/fairness.md must hold, twice: for the turn that had begun and one more.

    A channel waits from the moment at which it has something that may run, whether it stands in the line or its
    arrivals have not been folded yet. One with a rate waits from the next tick on.

    ``waiting``: by the id of a channel that waits, how many messages of others were taken meanwhile. ``longest``: by
    queue, the largest limit of a dequeue since nothing waited there. The call that begins a round chooses the length of
    its turns, and the round may have begun before a channel waits.
    """

    waiting: dict[int, Counter[str]] = field(default_factory=dict)
    longest: dict[str, int] = field(default_factory=dict)

    def ticked(self, model: Model) -> None:
        for channel in model.channels.values():
            if must(model, channel):
                self.waiting.setdefault(channel.id, Counter())

    def look(self, model: Model) -> None:
        """Add channels that can be served now, and forget those that cannot: they have left the line, or may have."""
        for channel in model.channels.values():
            if not must(model, channel):
                self.waiting.pop(channel.id, None)
            elif channel.release_interval is None:
                self.waiting.setdefault(channel.id, Counter())
        for number in self.waiting.keys() - model.channels.keys():
            del self.waiting[number]
        busy = {channel.queue for channel in model.channels.values() if must(model, channel)}
        self.longest = {queue: limit for queue, limit in self.longest.items() if queue in busy}

    def taken(self, model: Model, queue: str, limit: int, answer: Sequence[Lease]) -> None:
        counts = Counter(lease.channel for lease in answer)
        weights = {c.name: c.weight for c in model.channels.values() if c.queue == queue}
        self.longest[queue] = max(self.longest.get(queue, 1), limit)
        for number, others in self.waiting.items():
            channel = model.channels.get(number)
            if channel is None or channel.queue != queue:
                continue
            if counts[channel.name]:
                others.clear()
                continue
            others.update(counts)
            for name, count in others.items():
                bound = 2 * max(weights[name], self.longest[queue])
                assert count <= bound, f"{count} messages of channel {name}, none of {channel.name} which waits"
        self.look(model)
