"""How much is measured, and who takes part."""

from __future__ import annotations

from dataclasses import dataclass

from . import lonnymq, scripted
from .cluster import Cluster
from .design import CHANNEL_ROW, PGQUEUE, PGQUEUE_UNLOGGED, RAW_FLOOR, Design


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes that may grow in production. `little` is the size with which the large backlog is compared."""

    ready: int = 10_000_000
    little: int = 10_000
    active: int = 100_000  # channels with messages
    at_limit: int = 10_000  # channels
    scheduled: int = 1_000_000
    limited: int = 1_000  # channels whose limits never hold
    archived: int = 1_000_000
    enqueues: int = 2_000  # in one business transaction
    jobs: int = 200_000  # of a published drain


QUICK = Sizes(
    ready=20_000,
    little=2_000,
    active=1_000,
    at_limit=100,
    scheduled=5_000,
    limited=50,
    archived=5_000,
    enqueues=100,
    jobs=20_000,
)


@dataclass(frozen=True, slots=True)
class Plan:
    """How long and how much; `sketches` are designs from outside that take part.

    `seconds` is the window of one run, `long` that of effects that build up, `backlog` the messages of a drain.
    """

    cluster: Cluster
    seconds: float
    long: float
    backlog: int
    sizes: Sizes
    sketches: tuple[Design, ...] = ()


def designs(plan: Plan, channels: int = 1) -> list[Design]:
    """Return who takes part where each call is of one message."""
    return [RAW_FLOOR, CHANNEL_ROW, PGQUEUE, PGQUEUE_UNLOGGED, *others(channels), *lonnymq.present(), *plan.sketches]


def others(channels: int = 1) -> tuple[Design, ...]:
    """Return other queues that pgbench can drive with calls of one and of many messages, if they are installed."""
    return scripted.present() if channels == 1 else ()


def absent(channels: int = 1) -> dict[str, str]:
    """Return who is not measured where each call is of one message, and why: a line of the table each."""
    return scripted.absent(channels) | lonnymq.absent()
