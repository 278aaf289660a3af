"""A channel for each carrier, some of them with limits; and three for what goes on beside them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final

from django_pgqueue import channel_pause, channel_resume, channel_set

QUEUE: Final = "flights"
OFFICE: Final = "office"
PASSENGERS: Final = "passengers"
TOWER: Final = "tower"
SUMS: Final = "sums"

ONE_AT_A_TIME: Final = "F9"
RATED: Final = "AS"
WEIGHTED: Final = "DL"
PAUSED: Final = "HA"
UNLIMITED: dict[str, Any] = {
    "max_concurrency": None,
    "max_size": None,
    "release_interval": None,
    "release_burst": 1,
    "weight": 1,
}
LIMITS: dict[str, dict[str, Any]] = {
    ONE_AT_A_TIME: {"max_concurrency": 1},
    RATED: {"release_interval": timedelta(milliseconds=100), "release_burst": 5},
    WEIGHTED: {"weight": 3},
}


def open_channels(carriers: Iterable[str]) -> None:
    """Create the channels, or put them back to where the demo begins."""
    for carrier in carriers:
        # Limits are lifted and set again: it makes the engine look again at a lane whose leases went away in the reset.
        channel_set(channel=carrier, queue=QUEUE, **UNLIMITED)
        channel_resume(channel=carrier, queue=QUEUE)
        if carrier in LIMITS:
            channel_set(channel=carrier, queue=QUEUE, **LIMITS[carrier])
        if carrier == PAUSED:
            channel_pause(channel=carrier, queue=QUEUE, reason="the demo resumes it when the others are through")
    for name in (PASSENGERS, TOWER, SUMS):
        channel_set(channel=name, queue=OFFICE)
