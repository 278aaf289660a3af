"""The limits of a channel in the simulation, and the options that change them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from django_pgqueue.spark.errors import PipelineError

MICROSECONDS = {"us": 1, "ms": 1_000, "s": 1_000_000, "": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s|m|h|)")
# The name of a channel may hold dots and equals signs; the fields are known, so the last one of them counts.
CHANGE = re.compile(
    r"(?:(?P<channel>.*)\.)?(?P<field>max_concurrency|release_interval|release_burst|weight|paused|ordered|on_dead)=(?P<value>[^=]*)",
    re.DOTALL,
)


WORDS = {"on_dead": ("continue", "pause"), "fairness": ("turns", "share")}


@dataclass(frozen=True, slots=True)
class ChannelLimits:
    """The limits of a channel. ``release_interval``: microseconds from one delivery to the next. None: no limit.

    ``ordered``: a message that fails holds the channel until it is settled for good; ``on_dead``: continue or pause,
    when a message of an ordered channel becomes a dead letter.
    """

    max_concurrency: int | None = None
    release_interval: int | None = None
    release_burst: int = 1
    weight: int = 1
    paused: bool = False
    ordered: bool = False
    on_dead: str = "continue"

    @property
    def limited(self) -> bool:
        return self.max_concurrency is not None or self.release_interval is not None or self.paused or self.ordered

    @property
    def most(self) -> int | None:
        """Return how many messages may be leased at the same time; None: any number. An ordered channel has one."""
        return 1 if self.ordered and self.max_concurrency != 0 else self.max_concurrency

    def as_json(self) -> dict[str, Any]:
        """Return the limits for --json. The interval is in seconds."""
        return {
            "max_concurrency": self.max_concurrency,
            "release_interval_seconds": None if self.release_interval is None else self.release_interval / 1_000_000,
            "release_burst": self.release_burst,
            "weight": self.weight,
            "paused": self.paused,
            "ordered": self.ordered,
            "on_dead": self.on_dead,
        }


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """The limits of a whole queue. ``release_interval``: microseconds. None: no limit. ``fairness``: turns or share."""

    max_concurrency: int | None = None
    release_interval: int | None = None
    release_burst: int = 1
    fairness: str = "turns"
    max_share: float | None = None

    @classmethod
    def parse(cls, texts: Iterable[str]) -> QueueLimits:
        """Parse texts such as ``max_concurrency=8`` and ``release_interval=100ms``. Raises ValueError."""
        values = {}
        known = [each.name for each in fields(cls)]
        for text in texts:
            field, _, value = text.partition("=")
            if field not in known or not value:
                raise ValueError(f"{text!r} is no limit of a queue. Write FIELD=VALUE; fields: {', '.join(known)}")
            values[field] = _value(field, value.strip())
        limits = cls(**values)
        if limits.max_concurrency == 0:
            raise ValueError("max_concurrency of a queue is a number from 1 on, not '0'")
        return limits

    def as_json(self) -> dict[str, Any]:
        """Return the limits for --json. The interval is in seconds."""
        return {
            "max_concurrency": self.max_concurrency,
            "release_interval_seconds": None if self.release_interval is None else self.release_interval / 1_000_000,
            "release_burst": self.release_burst,
            "fairness": self.fairness,
            "max_share": self.max_share,
        }


@dataclass(frozen=True, slots=True)
class SharedLimits:
    """A shared limit. ``release_interval``: microseconds. None: no limit.

    Its messages are those of ``handlers``, and those that named it: the archive has ``id`` among their limits.
    """

    name: str
    max_concurrency: int | None = None
    max_cost: int | None = None
    release_interval: int | None = None
    release_burst: int = 1
    handlers: tuple[str, ...] = ()
    id: int | None = None

    @classmethod
    def parse(cls, texts: Iterable[str]) -> tuple[SharedLimits, ...]:
        """Parse texts such as ``stripe.max_concurrency=20`` and ``stripe.handlers=charge,refund``.

        Raises ValueError.
        """
        found: dict[str, SharedLimits] = {}
        known = [each.name for each in fields(cls) if each.name != "name"]
        for text in texts:
            left, _, value = text.partition("=")
            name, _, field = left.rpartition(".")
            if not name or field not in known or not value:
                raise ValueError(f"{text!r} is no shared limit. Write NAME.FIELD=VALUE; fields: {', '.join(known)}")
            parsed: Any = tuple(value.split(",")) if field == "handlers" else _value(field, value.strip())
            found[name] = replace(found.get(name, cls(name)), **{field: parsed})
        for limit in found.values():
            if not limit.handlers and limit.id is None:
                raise ValueError(
                    f"Say which messages have the shared limit {limit.name!r}: {limit.name}.handlers=NAME,NAME or "
                    f"{limit.name}.id=NUMBER"
                )
        return tuple(found.values())

    def has(self, handler: str, ids: Iterable[int]) -> bool:
        """Return whether a message of this handler, with limits of these ids, has the limit."""
        return handler in self.handlers or (self.id is not None and self.id in ids)

    def as_json(self) -> dict[str, Any]:
        """Return the limit for --json. The interval is in seconds."""
        return {
            "max_concurrency": self.max_concurrency,
            "max_cost": self.max_cost,
            "release_interval_seconds": None if self.release_interval is None else self.release_interval / 1_000_000,
            "release_burst": self.release_burst,
            "handlers": list(self.handlers),
            "id": self.id,
        }


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one limit. ``channel`` None: every channel."""

    channel: str | None
    field: str
    value: Any

    @classmethod
    def parse(cls, text: str) -> Change:
        """Parse ``CHANNEL.max_concurrency=8``, ``CHANNEL.release_interval=100ms``, or ``weight=1`` for all channels.

        Raises ValueError.
        """
        match = CHANGE.fullmatch(text)
        if match is None:
            raise ValueError(
                f"{text!r} is no limit. Write CHANNEL.FIELD=VALUE, or FIELD=VALUE for all channels; "
                "fields: max_concurrency, release_interval, release_burst, weight, paused, ordered, on_dead"
            )
        return cls(match["channel"], match["field"], _value(match["field"], match["value"].strip()))


def _value(field: str, text: str) -> Any:
    if field in ("paused", "ordered"):
        if text not in ("yes", "no"):
            raise ValueError(f"{field} is yes or no, not {text!r}")
        return text == "yes"
    if field in WORDS:
        if text not in WORDS[field]:
            raise ValueError(f"{field} is {' or '.join(WORDS[field])}, not {text!r}")
        return text
    if field == "max_share":
        return _share(text)
    if text == "none" and field in ("max_concurrency", "max_cost", "release_interval"):
        return None
    if field == "release_interval":
        return microseconds(text)
    least = 0 if field == "max_concurrency" else 1
    if not text.isdecimal() or int(text) < least:
        raise ValueError(f"{field} is a number from {least} on, not {text!r}")
    return int(text)


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise ValueError(f"max_share is a number above 0, at most 1, not {text!r}")
    return share


def microseconds(text: str) -> int:
    """Parse a duration such as ``0.5``, ``500ms``, ``2s`` or ``1m`` into microseconds. Raises ValueError."""
    match = DURATION.fullmatch(text)
    length = round(float(match[1]) * MICROSECONDS[match[2]]) if match else 0
    if length < 1:
        raise ValueError(f"{text!r} is no duration. Write seconds, or a number with us, ms, s, m or h: 500ms")
    return length


def changed(limits: Mapping[str, ChannelLimits], changes: Iterable[Change]) -> dict[str, ChannelLimits]:
    """Return the limits after the changes, applied in their order.

    Raises PipelineError for a channel that does not exist.
    """
    new = dict(limits)
    for change in changes:
        if change.channel is not None and change.channel not in new:
            raise PipelineError(
                f"The queue has no message of channel {change.channel!r} in these days. "
                f"Choose one of {', '.join(sorted(new)[:10])}."
            )
        for channel in new if change.channel is None else [change.channel]:
            new[channel] = replace(new[channel], **{change.field: change.value})
    return new
