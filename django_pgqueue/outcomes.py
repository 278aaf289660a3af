"""What a handler may answer. Each outcome can be returned or raised."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final


class _Keep:
    def __reduce__(self) -> str:
        return "KEEP"

    def __repr__(self) -> str:
        return "KEEP"


KEEP: Final = _Keep()
"""Leave the saved state of the message as it is."""


class Outcome(Exception):
    """Base of the outcomes; an exception, so that code deep inside a handler can end it."""

    __match_args__: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[type[Outcome], tuple[Any, ...]]:
        return type(self), tuple(getattr(self, name) for name in self.__match_args__)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__match_args__)})"


class Complete(Outcome):
    """Done. ``result`` (JSON) is kept in the archive."""

    __match_args__ = ("result",)

    def __init__(self, result: Any = None) -> None:
        super().__init__()
        self.result = result


class Cancelled(Outcome):
    """Ended because nobody wants it any more. The message goes to the archive as cancelled, with ``reason``."""

    __match_args__ = ("reason",)

    def __init__(self, reason: str = "") -> None:
        super().__init__()
        self.reason = reason


class Defer(Outcome):
    """Deliver again later, on purpose: at ``until`` (aware datetime), or ``delay`` from now, or at once. The attempt
    is given back.

    ``state`` (JSON) is saved with the message; the next delivery brings it.
    """

    __match_args__ = ("until", "delay", "state")

    def __init__(self, until: datetime | None = None, delay: timedelta | None = None, state: Any = KEEP) -> None:
        super().__init__()
        if until is not None and delay is not None:
            raise ValueError("Defer takes until or delay, not both.")
        if until is not None and until.tzinfo is None:
            raise ValueError("Defer(until=…) needs an aware datetime: use django.utils.timezone.")
        self.until = until
        self.delay = delay
        self.state = state


class Retry(Outcome):
    """Failed; try again after ``after``, or by the message's back-off. Dead-lettered when its attempts are used up."""

    __match_args__ = ("after", "error")

    def __init__(self, after: timedelta | None = None, error: str = "") -> None:
        super().__init__()
        self.after = after
        self.error = error


class DeadLetter(Outcome):
    """Refused for good. ``reason``: a short word to group by; ``details``: JSON or text for the person who looks at
    it."""

    __match_args__ = ("reason", "details")

    def __init__(self, reason: str, details: Any = None) -> None:
        super().__init__()
        if not reason or len(reason) > 200:
            raise ValueError("DeadLetter needs a reason of 1 to 200 characters.")
        self.reason = reason
        self.details = details
