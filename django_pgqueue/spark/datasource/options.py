"""The options of the data source, checked before anything starts."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django_pgqueue.spark.errors import PipelineError
from django_pgqueue.spark.source import Source
from django_pgqueue.spark.transforms.sla import parse_duration

# Spark itself puts these names among the options.
OF_SPARK = {"checkpointlocation", "queryname", "outputmode"}


def plain(name: str) -> str:
    """Return the name of an option as all its spellings have it: batchMessages and batch_messages are the same."""
    return name.lower().replace("_", "")


class OptionReader:
    """Take the options one by one, as text. An option that is left at the end is unknown."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = {plain(name): value for name, value in options.items()}
        self.spelled = {plain(name): name for name in options}
        self.known = ["source"]
        if "path" in self.options:
            raise PipelineError("pgqueue reads and writes no path: name the database with the option source.")

    def take(self, name: str, read: Callable[[str], Any] = str, default: Any = None) -> Any:
        """Return an option as ``read`` converts it, or ``default`` if it is not given.

        Raises PipelineError, with the name of the option, if ``read`` raises ValueError.
        """
        self.known.append(name)
        text = self.options.pop(plain(name), None)
        if text is None:
            return default
        try:
            return read(text)
        except ValueError as error:
            raise PipelineError(f"The option {name} is wrong: {error}") from None

    def source(self) -> Source:
        """Return the database that the option ``source`` names, or else the environment. Raises PipelineError."""
        text = self.options.pop("source", None)
        return Source.from_environment() if text is None else Source.parse(text)

    def end(self) -> None:
        """Raise PipelineError if an option is left that was not taken."""
        if unknown := sorted(set(self.options) - OF_SPARK):
            names = ", ".join(self.spelled[name] for name in unknown)
            raise PipelineError(f"Unknown option {names}; there are {', '.join(self.known)}.")


def whole_option(least: int) -> Callable[[str], int]:
    """Return a reader of whole numbers from ``least`` on. The reader raises ValueError."""

    def read(text: str) -> int:
        if not text.strip().isdigit() or int(text) < least:
            raise ValueError(f"{text!r} is not a whole number from {least} on.")
        return int(text)

    return read


def boolean_option(text: str) -> bool:
    """Read "true" or "false". Raises ValueError."""
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false.")
    return text.lower() == "true"


def table_option(text: str) -> str:
    """Return the name of a table, if it is one that can be read. Raises ValueError."""
    from django_pgqueue.spark.datasource.tables import TABLES

    if text not in TABLES:
        raise ValueError(f"{text!r} is none of {', '.join(TABLES)}.")
    return text


def moment_option(text: str) -> datetime:
    """Parse a time in ISO 8601; without a zone it is UTC. Raises ValueError."""
    value = datetime.fromisoformat(text)
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def duration_option(text: str) -> float:
    """Parse a duration such as 30s, 10m or 2h into seconds. Raises ValueError."""
    found = parse_duration(text)
    if found is None:
        raise ValueError(f"{text!r} is not a positive time such as 30s, 10m or 2h.")
    return found.total_seconds()


def channel_name(text: str) -> str:
    """Return a name unchanged, if it has 1 to 200 characters. Raises ValueError."""
    if not 1 <= len(text) <= 200:
        raise ValueError("a name takes 1 to 200 characters.")
    return text


def cores() -> int:
    """Return the number of partitions by default: one for each core, and two at least."""
    return max(2, os.cpu_count() or 2)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    source: Source
    table: str
    queue: str | None
    channel: str | None
    since: datetime | None
    until: datetime | None
    partitions: int

    @classmethod
    def of(cls, options: Mapping[str, str]) -> ReadOptions:
        """Return the checked options. Raises PipelineError."""
        given = OptionReader(options)
        read = cls(
            source=given.source(),
            table=given.take("table", table_option, "message"),
            queue=given.take("queue", channel_name),
            channel=given.take("channel", channel_name),
            since=given.take("since", moment_option),
            until=given.take("until", moment_option),
            partitions=given.take("partitions", whole_option(1), cores()),
        )
        given.end()
        return read


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a write. ``constants``: values for columns that the frame does not have, or has NULL in."""

    source: Source
    job: str | None
    create_channels: bool
    constants: Mapping[str, str]

    @classmethod
    def of(cls, options: Mapping[str, str], *, stream: bool = False) -> WriteOptions:
        """Return the checked options. Raises PipelineError."""
        given = OptionReader(options)
        source = given.source()
        job = None if stream else given.take("job", channel_name)
        create_channels = given.take("create_channels", boolean_option, False)
        constants = {name: given.take(name, channel_name) for name in ("handler", "queue", "channel")}
        given.end()
        return cls(
            source, job, create_channels, {name: value for name, value in constants.items() if value is not None}
        )


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The options of a stream. ``lease`` is in seconds."""

    source: Source
    queue: str
    lease: float
    batch_messages: int
    partitions: int

    @classmethod
    def of(cls, options: Mapping[str, str]) -> StreamOptions:
        """Return the checked options. Raises PipelineError."""
        given = OptionReader(options)
        read = cls(
            source=given.source(),
            queue=given.take("queue", channel_name, "default"),
            lease=given.take("lease", duration_option, 600.0),
            batch_messages=given.take("batch_messages", whole_option(1), 10_000),
            partitions=given.take("partitions", whole_option(1), cores()),
        )
        given.end()
        if read.lease < 10:
            raise PipelineError("The option lease is wrong: a stream needs at least 10 seconds.")
        return read
