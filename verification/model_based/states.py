"""The model's memory of messages and channels, also of those that ended. Times are microseconds of the clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SECOND = 1_000_000
READY, LEASED, SCHEDULED = 1, 2, 3
# The lease token of a swept message: only the queue knows it.
SWEPT = "swept"


class Refused(Exception):
    """The call must fail, with one of these SQLSTATEs."""

    def __init__(self, *codes: str) -> None:
        super().__init__(*codes)
        self.codes = frozenset(codes)


@dataclass(frozen=True, slots=True)
class Channel:
    id: int
    queue: str
    name: str
    max_concurrency: int | None = None
    max_size: int | None = None
    full_policy: str = "error"
    release_interval: int | None = None
    release_burst: int = 1
    weight: int = 1
    archive: str | None = None
    paused: bool = False
    released_at: int | None = None
    ordered: bool = False

    @property
    def limited(self) -> bool:
        return self.ordered or (
            self.released_at is None
            and (self.max_concurrency is not None or self.release_interval is not None or self.paused)
        )


@dataclass(frozen=True, slots=True)
class Message:
    id: int
    channel: int
    number: int | None
    dequeue_at: int
    status: int
    priority: int = 0
    attempts: int = 0
    max_attempts: int = 5
    backoff: int | None = None
    factor: float | None = None
    longest: int | None = None
    key: str | None = None
    state: Any = None
    errors: int = 0
    token: str | None = None
    leased_at: int | None = None
    expires_at: int | None = None
    settled_token: str | None = None
    cancelled: bool = False
    reason: str = ""
    redriven_from: int | None = None
    held_until: int | None = None
    # A lease of it has ended, and it came back.
    delivered: bool = False

    @property
    def place(self) -> tuple[int, int, int]:
        """Where it stands in its channel."""
        return (-self.priority, self.dequeue_at, self.id)

    def pause(self) -> tuple[int, int]:
        """The shortest and the longest pause after the present attempt has failed."""
        base = SECOND if self.backoff is None else self.backoff
        factor = 2.0 if self.factor is None else self.factor
        longest = self.longest
        if longest is None:
            longest = base if factor == 1 else 3600 * SECOND
        most = min(longest, int(base * factor ** (self.attempts - 1)))
        return (most if factor == 1 else 0, most)


@dataclass(frozen=True, slots=True)
class Archived:
    message: Message
    channel: tuple[str, str]
    outcome: str
    at: int
    result: Any


@dataclass(frozen=True, slots=True)
class Dead:
    message: Message
    channel: tuple[str, str]
    reason: str
    at: int
    redriven_to: int | None = None
