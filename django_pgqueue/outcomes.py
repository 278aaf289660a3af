"""Define the outcomes of a handler. Each can be returned or raised."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final, Literal, get_args

Archive = Literal["full", "outcome", "none"]
"""The archive keeps everything of a message, or its outcome without payload and result, or nothing."""


def archive_choice(archive: Archive | None) -> Archive | None:
    """Return the choice unchanged. Raises ValueError for one that does not exist."""
    if archive is not None and archive not in get_args(Archive):
        raise ValueError(f"archive is {archive!r}: it takes full, outcome or none, as text.")
    return archive


def delay_of(value: timedelta | None, what: str) -> timedelta | None:
    """Return the delay unchanged. Raises ValueError for a value that is not a timedelta, because a number has no unit.

    ``what``: the name of the value in the error.
    """
    if value is not None and not isinstance(value, timedelta):
        raise ValueError(f"{what} is not a timedelta but {type(value).__name__}: use datetime.timedelta(seconds=…).")
    return value


class Keep:
    """Mark an argument that is not given; :data:`KEEP` is its only value."""

    def __reduce__(self) -> str:
        return "KEEP"

    def __repr__(self) -> str:
        return "KEEP"


KEEP: Final = Keep()
"""Leave the value as it is: the saved state of a message, or a limit of a channel."""


class Outcome(Exception):
    """Define the base of the outcomes. It is an exception, so that code deep inside a handler can end the handler.

    Two outcomes are equal if their classes and their fields are.
    """

    __match_args__: tuple[str, ...] = ()

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__match_args__)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Outcome) or type(self) is not type(other):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        # The fields may hold dicts and lists, which have no hash.
        return hash(type(self))

    def __reduce__(self) -> tuple[type[Outcome], tuple[Any, ...]]:
        return type(self), self._values()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__match_args__)})"


class Complete(Outcome):
    """Complete the message. ``result`` (JSON) is kept in the archive.

    ``archive``: what the archive keeps of the message: ``full``, ``outcome`` (no payload, no result) or ``none``; it
    overrides the setting of the handler, channel and queue.
    """

    __match_args__ = ("result", "archive")

    def __init__(self, result: Any = None, archive: Archive | None = None) -> None:
        super().__init__()
        self.result = result
        self.archive = archive_choice(archive)


class Cancelled(Outcome):
    """End the message because its work is no longer wanted. It goes to the archive as cancelled, with ``reason``."""

    __match_args__ = ("reason",)

    def __init__(self, reason: str = "") -> None:
        super().__init__()
        self.reason = reason


class Defer(Outcome):
    """Give the message back on purpose, to be delivered again later.

    ``until``: an aware datetime, or ``delay``: a timedelta from now; without either, at once. ``state``: JSON that is
    saved with the message; the next delivery brings it. ``count_attempt``: by default the attempt is given back; with
    True it counts, so ``2 ** delivery.attempt`` grows from deferral to deferral, and a message whose attempts are used
    up becomes a dead letter with reason ``deferred``.
    """

    __match_args__ = ("until", "delay", "state", "count_attempt")

    def __init__(
        self,
        until: datetime | None = None,
        delay: timedelta | None = None,
        state: Any = KEEP,
        count_attempt: bool = False,
    ) -> None:
        super().__init__()
        if until is not None and delay is not None:
            raise ValueError("Defer takes until or delay, not both.")
        if until is not None and not isinstance(until, datetime):
            raise ValueError(
                f"until of Defer is not a datetime but {type(until).__name__}: for a time from now, use "
                "Defer(delay=datetime.timedelta(seconds=…))."
            )
        if until is not None and until.tzinfo is None:
            raise ValueError("Defer(until=…) needs an aware datetime: use django.utils.timezone.")
        self.until = until
        self.delay = delay_of(delay, "delay of Defer")
        self.state = state
        self.count_attempt = count_attempt


class Pause(Defer):
    """Give the message back by a statement that an app of the queue has. Handlers neither return nor raise it."""

    def settle(self, leased: Any, *, skip_lost: bool, using: str) -> dict[int, str]:
        """Write the outcome of one message. Returns the event by its id, as :func:`django_pgqueue.defer` does."""
        raise NotImplementedError


class Retry(Outcome):
    """Report a failure and try again, or dead-letter the message when its attempts are used up.

    ``after``: a timedelta until the next delivery; default: the message's back-off. ``error``: a text that is kept with
    the message. ``state``: JSON that is saved for the next delivery; default: the saved state stays.
    """

    __match_args__ = ("after", "error", "state")

    def __init__(self, after: timedelta | None = None, error: str = "", state: Any = KEEP) -> None:
        super().__init__()
        self.state = state
        self.after = delay_of(after, "after of Retry")
        self.error = error


class Reject(Outcome):
    """Move the message to the dead letters, without further attempts.

    ``reason``: a short word to group by, 1 to 200 characters. ``details``: JSON or text for the person who examines it.
    """

    __match_args__ = ("reason", "details")

    def __init__(self, reason: str, details: Any = None) -> None:
        super().__init__()
        if not isinstance(reason, str):
            raise ValueError(f"reason of Reject is not a str but {type(reason).__name__}: give a short word.")
        if not reason or len(reason) > 200:
            raise ValueError("Reject needs a reason of 1 to 200 characters.")
        self.reason = reason
        self.details = details
