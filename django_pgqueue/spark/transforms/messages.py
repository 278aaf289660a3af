"""Read the messages of one day from the lake into arrays, without Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from django_pgqueue.spark.lake.rows import read
from django_pgqueue.spark.schema import DAYS, TEXT, TIME

UNKNOWN = "unknown"
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """A failed attempt.

    ``micros``: how long its handler ran, in microseconds; 0 if that is not known. ``put_back``: another attempt
    followed, or the wait for it. Otherwise its time is that of the last handler.
    """

    reason: str
    micros: int
    put_back: bool


def parse_failures(errors: str, attempts: int | None, *, was_leased: bool) -> Iterator[FailedAttempt]:
    """Yield the failed attempts of a message. An entry that cannot be read is a failure for an unknown reason.

    ``errors``: a JSON array; callers of SQL functions give it. ``attempts``: those of the message. ``was_leased``: it
    was leased when it was settled.
    """
    try:
        entries = json.loads(errors)
    except ValueError:
        return
    for entry in entries if isinstance(entries, list) else []:
        fields = entry if isinstance(entry, dict) else {}
        reason, attempt, began = (_text(fields.get(name)) for name in ("type", "attempt", "started_at"))
        yield FailedAttempt(
            UNKNOWN if reason is None else reason,
            _micros_between(_text(fields.get("leased_at")) if began is None else began, _text(fields.get("at"))),
            not was_leased or attempt is None or attempt != str(attempts),
        )


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _micros_between(began: str | None, ended: str | None) -> int:
    if began is None or ended is None:
        return 0
    try:
        return (_moment(ended) - _moment(began)) // MICROSECOND
    except ValueError:
        return 0


def _moment(text: str) -> datetime:
    """Return a time in ISO 8601, in UTC unless it says otherwise. Raises ValueError, also for infinity."""
    moment = datetime.fromisoformat(text.strip())
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

NAMES = ["queue", "channel", "handler"]
OUTCOMES = ["completed", "popped", "purged", "dropped", "cancelled", "dead"]
# Columns with few different values are read as dictionaries.
ENCODED = [*NAMES, "outcome", "reason"]
DICTIONARY = pa.dictionary(pa.int32(), TEXT)
SETTLED = pa.schema(
    [
        *((name, DICTIONARY) for name in ENCODED),
        *((name, TIME) for name in ("created_at", "dequeue_at", "leased_at", "started_at", "settled_at")),
        ("attempts", pa.int32()),
        ("errors", TEXT),
    ]
)
CREATED = pa.schema([SETTLED.field(name) for name in (*NAMES, "created_at")])
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY_MICROSECONDS = timedelta(days=1) // MICROSECOND


@dataclass(frozen=True, slots=True)
class Durations:
    """The microseconds of each message, where ``known``; otherwise any number."""

    known: Booleans
    micros: Integers


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages of a day: first those that were settled on it, then others that were only created on it.

    ``names``: the columns NAMES of all messages. ``created_at``: of all, in microseconds since the day began. The other
    arrays are those of the settled messages: ``settled_at`` in microseconds since the day began, ``outcome`` as the
    place in OUTCOMES, ``durations`` by "wait", "run" and "total". ``failures``: failed attempts, and ``reasons``: those
    of dead letters, both with the number of the message.
    """

    names: pa.Table
    created_at: Integers
    settled_at: Integers
    outcome: Integers
    attempts: Integers
    durations: dict[str, Durations]
    failures: list[tuple[int, FailedAttempt]]
    reasons: list[tuple[int, str]]


def read_messages(day: date, settled: Sequence[tuple[str, Path]], created: Sequence[Path]) -> Messages:
    """Read the messages of a day.

    ``settled``: table and path of the files of messages that were settled on it; ``created``: paths of files of other
    days, which have messages that were created on it. Raises PipelineError when a file cannot be read.
    """
    begin = start_of(day)
    rows = pa.concat_tables([SETTLED.empty_table(), *(_read_settled(table, path) for table, path in settled)])
    others = (_read_created(path, begin) for path in created)
    everyone = pa.concat_tables([rows.select(CREATED.names), *others])
    began_at = pc.coalesce(rows["started_at"], rows["leased_at"])
    has_begun = pc.is_valid(began_at)
    outcomes = rows["outcome"].cast(TEXT)
    dead = np.flatnonzero(pc.equal(outcomes, "dead").to_numpy())
    reasons = pc.fill_null(rows["reason"].cast(TEXT), UNKNOWN).take(pa.array(dead)).to_pylist()
    return Messages(
        names=everyone.select(NAMES),
        created_at=_micros(everyone["created_at"]) - begin,
        settled_at=_micros(rows["settled_at"]) - begin,
        outcome=_integers(pc.index_in(outcomes, pa.array(OUTCOMES, TEXT)), len(OUTCOMES)),
        attempts=_integers(rows["attempts"], 0),
        durations={
            "wait": _between(rows["dequeue_at"], began_at),
            "run": _between(began_at, rows["settled_at"]),
            "total": _between(rows["created_at"], pc.if_else(has_begun, rows["settled_at"], pa.scalar(None, TIME))),
        },
        failures=list(_read_failures(rows, has_begun)),
        reasons=list(zip(dead.tolist(), reasons, strict=True)),
    )


def start_of(day: date) -> int:
    """Return when a day begins (UTC), in microseconds since 1970."""
    return (datetime(day.year, day.month, day.day, tzinfo=UTC) - EPOCH) // MICROSECOND


def _read_settled(table: str, path: Path) -> pa.Table:
    columns = [field.with_name(DAYS[table]) if field.name == "settled_at" else field for field in SETTLED]
    rows = read(path, pa.schema(columns)).rename_columns(SETTLED.names)
    if table == "dead_letter":
        dead = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows.num_rows, "int32")), pa.array(["dead"], TEXT))
        rows = rows.set_column(SETTLED.get_field_index("outcome"), SETTLED.field("outcome"), dead)
    return rows


def _read_created(path: Path, begin: int) -> pa.Table:
    """Return the messages of a file that were created on the day that begins then."""
    first, end = (pa.scalar(micros, pa.int64()).cast(TIME) for micros in (begin, begin + DAY_MICROSECONDS))
    return read(path, CREATED, (pc.field("created_at") >= first) & (pc.field("created_at") < end))


def _read_failures(rows: pa.Table, has_begun: pa.ChunkedArray) -> Iterator[tuple[int, FailedAttempt]]:
    failed = pc.is_valid(rows["errors"])
    numbers = np.flatnonzero(failed.to_numpy()).tolist()
    columns = [column.filter(failed).to_pylist() for column in (rows["errors"], rows["attempts"], has_begun)]
    for number, errors, attempts, was_leased in zip(numbers, *columns, strict=True):
        for failure in parse_failures(errors, attempts, was_leased=was_leased):
            yield number, failure


def _micros(times: pa.ChunkedArray) -> Integers:
    """Return microseconds since 1970; 0 where there is no time."""
    return _integers(times.cast(pa.int64()), 0)


def _integers(values: pa.ChunkedArray, default: int) -> Integers:
    found: Integers = pc.fill_null(values, default).to_numpy().astype(np.int64, copy=False)
    return found


def _between(began: pa.ChunkedArray, ended: pa.ChunkedArray) -> Durations:
    known = pc.and_(pc.is_valid(began), pc.is_valid(ended)).to_numpy()
    return Durations(known, _micros(ended) - _micros(began))
