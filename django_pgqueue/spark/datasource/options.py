"""The options of the data source, checked before anything starts."""

# ruff: noqa: RUF009  (each default is a field)
from __future__ import annotations

import os
from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Self

from django_pgqueue.spark.arguments import duration, whole
from django_pgqueue.spark.datasource.tables import TABLES
from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.source import Source

# Spark itself puts these names among the options.
OF_SPARK = {"checkpointlocation", "queryname", "outputmode"}


def plain(name: str) -> str:
    """Return the name of an option as all its spellings have it: batchMessages and batch_messages are the same."""
    return name.lower().replace("_", "")


def option(read: Callable[[str], Any], default: Any = None) -> Any:
    """Make a field for an option, which ``read`` converts from text. ``default``: the value without the option."""
    return field(default=default, metadata={"read": read})


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one use of the data source. Each field is an option."""

    source: Source = field(default_factory=Source.from_environment, metadata={"read": Source.parse})

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Return the checked options. Raises PipelineError, with the name of an option that is wrong or unknown."""
        given = {plain(name): text for name, text in options.items()}
        if "path" in given:
            raise PipelineError("pgqueue reads and writes no path: name the database with the option source.")
        known = {plain(each.name): each for each in fields(cls)}
        if unknown := sorted(name for name in options if plain(name) not in {*known, *OF_SPARK}):
            names = ", ".join(each.name for each in known.values())
            raise PipelineError(f"Unknown option {', '.join(unknown)}; there are {names}.")
        found = {}
        for name, each in known.items():
            try:
                if name in given:
                    found[each.name] = each.metadata["read"](given[name])
            except (ValueError, ArgumentTypeError) as error:
                raise PipelineError(f"The option {each.name} is wrong: {error}.") from None
        return cls(**found)


def boolean_option(text: str) -> bool:
    """Read "true" or "false". Raises ValueError."""
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def table_option(text: str) -> str:
    """Return the name of a table, if it is one that can be read. Raises ValueError."""
    if text not in TABLES:
        raise ValueError(f"{text!r} is none of {', '.join(TABLES)}")
    return text


def moment_option(text: str) -> datetime:
    """Parse a time in ISO 8601; without a zone it is UTC. Raises ValueError."""
    value = datetime.fromisoformat(text)
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def lease_option(text: str) -> float:
    """Parse the duration of a lease into seconds. Raises ValueError, ArgumentTypeError."""
    if (seconds := duration(text).total_seconds()) < 10:
        raise ValueError("a stream needs at least 10 seconds")
    return seconds


def channel_name(text: str) -> str:
    """Return a name unchanged, if it has 1 to 200 characters. Raises ValueError."""
    if not 1 <= len(text) <= 200:
        raise ValueError("a name takes 1 to 200 characters")
    return text


# The number of partitions by default: one for each core, and two at least.
CORES = max(2, os.cpu_count() or 2)


@dataclass(frozen=True, slots=True)
class ReadOptions(Options):
    table: str = option(table_option, "message")
    queue: str | None = option(channel_name)
    channel: str | None = option(channel_name)
    since: datetime | None = option(moment_option)
    until: datetime | None = option(moment_option)
    partitions: int = option(whole(1), CORES)


@dataclass(frozen=True, slots=True)
class StreamWriteOptions(Options):
    create_channels: bool = option(boolean_option, False)
    handler: str | None = option(channel_name)
    queue: str | None = option(channel_name)
    channel: str | None = option(channel_name)

    @property
    def constants(self) -> dict[str, str]:
        """Return values for columns that the frame does not have, or has NULL in."""
        named = {"handler": self.handler, "queue": self.queue, "channel": self.channel}
        return {name: value for name, value in named.items() if value is not None}


@dataclass(frozen=True, slots=True)
class WriteOptions(StreamWriteOptions):
    job: str | None = option(channel_name)


@dataclass(frozen=True, slots=True)
class StreamOptions(Options):
    """The options of a stream. ``lease`` is in seconds."""

    queue: str = option(channel_name, "default")
    lease: float = option(lease_option, 600.0)
    batch_messages: int = option(whole(1), 10_000)
    partitions: int = option(whole(1), CORES)
