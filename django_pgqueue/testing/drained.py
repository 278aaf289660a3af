"""Define the result of a drain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from django_pgqueue.delivery import Delivery
from django_pgqueue.outcomes import Outcome


@dataclass(frozen=True, slots=True)
class Handled:
    """Report one delivery.

    ``event``: completed, deferred, retried, dead_lettered or cancelled; ``lost`` if another process settled the
    message. ``outcome``: the handler's answer. ``error``: the exception that it raised, unless that is an outcome.
    """

    delivery: Delivery
    event: str
    outcome: Outcome
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Drained:
    """Hold the deliveries of a drain, in their order."""

    handled: tuple[Handled, ...] = ()

    def __len__(self) -> int:
        return len(self.handled)

    def __iter__(self) -> Iterator[Handled]:
        return iter(self.handled)

    @property
    def counts(self) -> dict[str, int]:
        """Return how often each event happened: ``{"completed": 2}``."""
        return dict(Counter(item.event for item in self.handled))
