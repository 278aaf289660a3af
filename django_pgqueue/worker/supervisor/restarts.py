"""How soon a child is started again: at once, unless it only starts to die."""

from __future__ import annotations

import random

# Seconds. Whoever lived longer than this, and dies, had another reason than its start.
WELL = 60.0
FIRST = 0.5
# Of one that never became ready: its code does not even load. Of one that worked: its messages kill it.
LONGEST_START = 30.0
LONGEST_WORK = 1.0


class Restarts:
    """Of one slot. ``failures``: deaths in a row that came early."""

    def __init__(self) -> None:
        self.failures = 0

    def forget(self) -> None:
        """Something has changed; or all is well."""
        self.failures = 0

    def delay(self, *, lived: float, was_ready: bool) -> float:
        """Seconds until the next start, after one that ``lived`` so long."""
        if was_ready and lived > WELL:
            self.failures = 0
        self.failures += 1
        if was_ready and self.failures == 1:
            return 0.0
        longest = LONGEST_WORK if was_ready else LONGEST_START
        # Jitter: processes that die of one cause shall not all come back at once.
        return min(longest, FIRST * float(2 ** min(self.failures - 1, 10))) * random.uniform(0.8, 1.0)
