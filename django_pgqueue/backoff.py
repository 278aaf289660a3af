"""Compute pauses between attempts: for a message that failed, and for a server that cannot be reached.

The database computes the pause of a message (pgqueue_backoff), so that the policy also applies if the worker died.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta

FACTOR = 2.0
LONGEST = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Constant:
    """Pause for the same time after each failure, without jitter. ``delay``: a timedelta."""

    delay: timedelta

    def __post_init__(self) -> None:
        if not isinstance(self.delay, timedelta) or self.delay < timedelta(0):
            raise ValueError(f"Constant takes a timedelta that is not negative, not {self.delay!r}.")

    def pause(self, attempt: int) -> timedelta:
        """Return the pause after the failure of this attempt, counted from 1."""
        return self.delay


@dataclass(frozen=True, slots=True)
class Exponential:
    """Pause for a time that grows with each failure, with full jitter.

    The pause is random between 0 and a limit, so that messages that failed together do not return together. ``base``:
    the limit after the first failure. ``factor``: by how much it grows with each further failure, above 1 and up to
    1,000. ``longest``: the highest limit.
    """

    base: timedelta = timedelta(seconds=1)
    factor: float = FACTOR
    longest: timedelta = LONGEST

    def __post_init__(self) -> None:
        for moment in (self.base, self.longest):
            if not isinstance(moment, timedelta) or moment < timedelta(0):
                raise ValueError(f"Exponential takes timedeltas that are not negative, not {moment!r}.")
        if not 1 < self.factor <= 1000:
            raise ValueError(f"The factor of Exponential is {self.factor!r}: it must be above 1, up to 1000.")

    def pause(self, attempt: int) -> timedelta:
        """Return the pause after the failure of this attempt, counted from 1."""
        seconds = self.base.total_seconds() * self.factor ** min(attempt - 1, 30)
        return timedelta(seconds=random.random() * min(self.longest.total_seconds(), seconds))


Policy = timedelta | Constant | Exponential


def policy_columns(policy: Policy | None) -> tuple[timedelta | None, float | None, timedelta | None]:
    """Return the policy as a message stores it: backoff, backoff_factor, backoff_longest."""
    match policy:
        case Constant(delay):
            return delay, 1.0, None
        case Exponential(base, factor, longest):
            return base, None if factor == FACTOR else factor, None if longest == LONGEST else longest
    return policy, None, None


def pause(failures: int, *, base: float = 0.1, longest: float = 5.0) -> float:
    """Return the seconds to wait before a retry: exponential, with jitter, so that workers do not retry together.

    ``failures``: the number of failures in a row. ``base``: the limit without any, in seconds; it doubles with each.
    ``longest``: the highest limit, in seconds.
    """
    return min(longest, base * 2.0 ** min(failures, 16)) * random.uniform(0.5, 1.0)
