"""Declare the breaker of a handler: its messages wait while what it calls is down."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import Any, Literal

from django_pgqueue.exceptions import InvalidMessage

MOST_FAILURES = 1_000
MOST_CHARACTERS = 160
"""The longest name of a handler that has a breaker."""
SHORTEST_PAUSE = timedelta(seconds=1)
LONGEST = timedelta(days=365_000)


@dataclass(frozen=True, slots=True)
class Breaker:
    """Declare a breaker: after ``failures`` in a row, all ``within`` this time, the messages of the handler wait.

    After ``pause`` one message tries. If it is completed, the others go on; if it fails, or its worker dies, they wait
    for another ``pause``. A message that waits uses no attempt, and blocks no other. All workers see the same breaker.

    ``failures``: 1 to 1,000 attempts that raised, timed out, returned Retry, or lost their lease. Complete begins the
    count anew; Defer, Reject and Cancelled count as neither. ``within``, ``pause``: timedeltas; a pause takes a second
    or longer. ``per``: ``"handler"``, or ``"channel"`` for a breaker of its own for each channel.

    Raises InvalidMessage for a value that is not allowed.
    """

    _: KW_ONLY
    failures: int = 5
    within: timedelta = timedelta(minutes=1)
    pause: timedelta = timedelta(seconds=30)
    per: Literal["handler", "channel"] = "handler"

    def __post_init__(self) -> None:
        failures: Any = self.failures
        if isinstance(failures, bool) or not isinstance(failures, int) or not 1 <= failures <= MOST_FAILURES:
            raise invalid_breaker(f"failures is {failures!r}", f"Give an int from 1 to {MOST_FAILURES:,}.")
        for what, shortest in (("within", timedelta.resolution), ("pause", SHORTEST_PAUSE)):
            value: Any = getattr(self, what)
            if not isinstance(value, timedelta):
                raise invalid_breaker(
                    f"{what} is not a timedelta but {type(value).__name__}", "Use datetime.timedelta."
                )
            if not shortest <= value <= LONGEST:
                raise invalid_breaker(f"{what} is {value}", f"Give a time from {shortest} to {LONGEST}.")
        if self.per not in ("handler", "channel"):
            raise invalid_breaker(f"per is {self.per!r}", 'Give "handler" or "channel".')

    def settings(self) -> dict[str, Any]:
        """Return the settings as the database takes them."""
        return {
            "failures": self.failures,
            "within": f"{self.within.total_seconds():f} seconds",
            "pause": f"{self.pause.total_seconds():f} seconds",
            "per": self.per,
        }


def invalid_breaker(text: str, hint: str) -> InvalidMessage:
    """Return the exception for a wrong breaker. The caller raises it."""
    return InvalidMessage(f"a breaker: {text}", hint=hint)
