"""Describe messages of which a channel is to have one at a time, by a key of the caller's."""

from __future__ import annotations

import json
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import Any, Literal

from django_pgqueue.exceptions import InvalidMessage


@dataclass(frozen=True, slots=True)
class Unique:
    """Let a channel have one message with this key.

    ``key``: 1 to 200 characters. ``until``: how long a message keeps it: "settled", until it is settled for good;
    "leased", until a worker leases it first, so that what is enqueued after its start is done by another one; a
    timedelta, so long from its enqueue on, whatever becomes of it. ``on_conflict``: "keep" leaves the message that has
    the key as it is; "replace" gives it the payload, body and headers of the new one, unless it was leased already.
    """

    key: str
    _: KW_ONLY
    until: Literal["settled", "leased"] | timedelta = "settled"
    on_conflict: Literal["keep", "replace"] = "keep"

    def request(self) -> str:
        """Return the parameter of pgqueue_enqueue_unique. Raises InvalidMessage for a value that is not allowed."""
        if self.on_conflict not in ("keep", "replace"):
            raise InvalidMessage(f"on_conflict is {self.on_conflict!r}", hint='It takes "keep" or "replace".')
        asked: dict[str, Any] = {"key": checked_key(self.key), "replace": self.on_conflict == "replace"}
        if isinstance(self.until, timedelta):
            asked["window"] = seconds(self.until, "until")
        elif self.until in ("settled", "leased"):
            asked["until"] = self.until
        else:
            raise InvalidMessage(f"until is {self.until!r}", hint='It takes "settled", "leased" or a timedelta.')
        return json.dumps(asked)


@dataclass(frozen=True, slots=True)
class Debounce:
    """Let one message stand for all that come in quick succession: it is due when none has come for a while.

    ``key``: 1 to 200 characters, of the channel. ``wait``: the message is due after this time. Each further call puts
    it off again, and gives it the payload of that call. ``at_most``: no longer than this after the first call; None:
    without an end. What is enqueued after the message is due is another one.
    """

    key: str
    _: KW_ONLY
    wait: timedelta
    at_most: timedelta | None = None

    def request(self) -> str:
        """Return the parameter of pgqueue_enqueue_unique. Raises InvalidMessage for a value that is not allowed."""
        asked = {"key": checked_key(self.key), "until": "due", "replace": True, "wait": seconds(self.wait, "wait")}
        if self.at_most is not None:
            asked["at_most"] = seconds(self.at_most, "at_most")
        return json.dumps(asked)


def checked_key(key: Any) -> str:
    """Return the key. Raises InvalidMessage unless it has 1 to 200 characters."""
    if not isinstance(key, str) or not 1 <= len(key) <= 200 or "\0" in key:
        raise InvalidMessage("a unique key is not a text of 1 to 200 characters", hint="Give a str.")
    return key


def seconds(time: Any, what: str) -> str:
    """Return the time as an interval of PostgreSQL. Raises InvalidMessage unless it is a positive timedelta."""
    if not isinstance(time, timedelta) or not timedelta(0) < time <= timedelta(days=365_000):
        raise InvalidMessage(f"{what} is {time!r}", hint="Give a timedelta longer than zero.")
    return f"{time.total_seconds():.6f} seconds"
