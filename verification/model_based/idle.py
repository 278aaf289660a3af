"""Check for both machines with limits, when they are idle, that each message that waits has an obstacle."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

LOOKS = 60
QUIET = 3


class Lane(Protocol):
    name: str


class Job(Protocol):
    id: int

    @property
    def lane(self) -> Lane: ...


J = TypeVar("J", bound=Job)


def run_until_idle(tick: Callable[[], object], dequeue: Callable[[], object]) -> None:
    """Tick and dequeue until a few dequeues in a row have found nothing.

    ``dequeue``: its answer is true if it has found messages.
    """
    quiet = 0
    for _ in range(LOOKS):
        tick()
        quiet = 0 if dequeue() else quiet + 1
        if quiet == QUIET:
            return


def check_obstacles(ready: Iterable[J], obstacle: Callable[[J], object]) -> None:
    """Raise AssertionError for a ready message that has no obstacle."""
    for job in ready:
        assert obstacle(job), f"message {job.id} of channel {job.lane.name} may run, and does not"
