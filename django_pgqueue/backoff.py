"""Pauses between attempts: of a message that failed, and to reach something that is away.

What a message's pause is, the database decides (pgqueue_backoff): also a worker that died has a policy.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta

FACTOR = 2.0
LONGEST = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Constant:
    """The same pause after each failure, without jitter."""

    delay: timedelta

    def __post_init__(self) -> None:
        if not isinstance(self.delay, timedelta) or self.delay < timedelta(0):
            raise ValueError(f"Constant takes a timedelta that is not negative, not {self.delay!r}.")

    def pause(self, attempt: int) -> timedelta:
        """After the failure of this attempt, counted from 1."""
        return self.delay


@dataclass(frozen=True, slots=True)
class Exponential:
    """Up to ``base`` after the first failure, then up to ``factor`` times more each time, ``longest`` at the longest.

    With full jitter: random between 0 and that, so that what failed together does not come back together.
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
        """After the failure of this attempt, counted from 1."""
        seconds = self.base.total_seconds() * self.factor ** min(attempt - 1, 30)
        return timedelta(seconds=random.random() * min(self.longest.total_seconds(), seconds))


Policy = timedelta | Constant | Exponential


def columns(policy: Policy | None) -> tuple[timedelta | None, float | None, timedelta | None]:
    """The policy as a message has it: backoff, backoff_factor, backoff_longest."""
    match policy:
        case Constant(delay):
            return delay, 1.0, None
        case Exponential(base, factor, longest):
            return base, None if factor == FACTOR else factor, None if longest == LONGEST else longest
    return policy, None, None


def pause(failures: int, *, base: float = 0.1, longest: float = 5.0) -> float:
    """Seconds to wait after so many failures in a row: exponential, with jitter, so that workers come apart."""
    return min(longest, base * 2.0 ** min(failures, 16)) * random.uniform(0.5, 1.0)
