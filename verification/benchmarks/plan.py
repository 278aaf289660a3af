"""How much is measured, and who takes part."""

from __future__ import annotations

from dataclasses import dataclass

from .cluster import Cluster
from .design import CHANNEL_ROW, PGQUEUE, PGQUEUE_UNLOGGED, RAW_FLOOR

# Who takes part where each call is of one message.
DESIGNS = (RAW_FLOOR, CHANNEL_ROW, PGQUEUE, PGQUEUE_UNLOGGED)


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


QUICK = Sizes(ready=20_000, little=2_000, active=1_000, at_limit=100, scheduled=5_000, limited=50, archived=5_000)


@dataclass(frozen=True, slots=True)
class Plan:
    """How long and how much.

    `seconds` is the window of one run, `long` that of effects that build up, `backlog` the messages of a drain.
    """

    cluster: Cluster
    seconds: float
    long: float
    backlog: int
    sizes: Sizes
