"""Delay the restart of children that die soon after their start."""

from __future__ import annotations

import random

# Seconds. A child that lived longer than this died for another reason than its start.
WELL = 60.0
FIRST = 0.5
# Seconds. A child that never became ready cannot load its code; a child that worked is killed by its messages.
LONGEST_START = 30.0
LONGEST_WORK = 1.0


class Restarts:
    """The restart delays of one slot. ``failures``: early deaths in a row."""

    def __init__(self) -> None:
        self.failures = 0

    def forget(self) -> None:
        """Forget the failures: the code has changed, or a child works well."""
        self.failures = 0

    def delay(self, *, lived: float, was_ready: bool) -> float:
        """Return the seconds until the next start, after a child that ``lived`` so many seconds."""
        if was_ready and lived > WELL:
            self.failures = 0
        self.failures += 1
        if was_ready and self.failures == 1:
            return 0.0
        longest = LONGEST_WORK if was_ready else LONGEST_START
        # Jitter: processes that die of one cause shall not all come back at once.
        return min(longest, FIRST * float(2 ** min(self.failures - 1, 10))) * random.uniform(0.8, 1.0)
