"""Pauses between attempts to reach something that is away. (The back-off of messages is in SQL: pgqueue_backoff.)"""

from __future__ import annotations

import random


def pause(failures: int, *, base: float = 0.1, longest: float = 5.0) -> float:
    """Seconds to wait after so many failures in a row: exponential, with jitter, so that workers come apart."""
    return min(longest, base * 2.0 ** min(failures, 16)) * random.uniform(0.5, 1.0)
