"""Pauses between attempts to reach something that is away. The back-off of messages is pgqueue_backoff, in the database."""

from __future__ import annotations

import random


def pause(failures: int, *, base: float = 0.1, longest: float = 5.0) -> float:
    """Seconds to wait after so many failures in a row: exponential, with jitter over the upper half, so that workers do not march in step."""
    return min(longest, base * 2.0 ** min(failures, 16)) * random.uniform(0.5, 1.0)
