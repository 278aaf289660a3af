"""Chance that a seed decides, for tests that try many orders of events."""

from __future__ import annotations

import os
import random
import time

# PGQUEUE_STRESS=20 repeats each randomized test with twenty times as many seeds.
STRESS = int(os.environ.get("PGQUEUE_STRESS", "1"))


def seeds(count: int) -> range:
    """Return the seeds of a test that has ``count`` of them by default."""
    return range(count * STRESS)


class Chance:
    """A source of randomness for each thread, all from one seed."""

    def __init__(self, seed: int, name: str) -> None:
        self.random = random.Random(f"{seed}/{name}")

    def of(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.random.random() < probability

    def pause(self, longest: float) -> None:
        """Sleep for up to ``longest`` seconds."""
        time.sleep(self.random.random() * longest)
