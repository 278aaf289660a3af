"""Delay the restart of children that die soon after their start."""

from __future__ import annotations

import random

# A child that ran for longer than this did not die of its start.
WELL_SECONDS = 60.0
FIRST_DELAY_SECONDS = 0.5
# The longest delays: after a child that never became ready, because it cannot load its code, and after a child that
# worked, because a message killed it.
LONGEST_START_DELAY_SECONDS = 30.0
LONGEST_WORK_DELAY_SECONDS = 1.0


class Restarts:
    """Compute the delays of one process slot before it starts a child. ``failures``: early deaths in a row."""

    def __init__(self) -> None:
        self.failures = 0

    def forget(self) -> None:
        """Forget the failures, because the code has changed."""
        self.failures = 0

    def delay(self, *, ran_seconds: float, was_ready: bool) -> float:
        """Record that a child has ended, and return the seconds until the next start.

        ``ran_seconds``: how long it ran. ``was_ready``: whether it became ready. The first death of a child that was
        ready has no delay; then the delay doubles, with jitter.
        """
        if was_ready and ran_seconds > WELL_SECONDS:
            self.failures = 0
        self.failures += 1
        if was_ready and self.failures == 1:
            return 0.0
        longest = LONGEST_WORK_DELAY_SECONDS if was_ready else LONGEST_START_DELAY_SECONDS
        # With jitter, processes that die of one cause do not all start again at the same moment.
        return min(longest, FIRST_DELAY_SECONDS * float(2 ** min(self.failures - 1, 10))) * random.uniform(0.8, 1.0)
