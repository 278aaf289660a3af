"""Forecast the next day: the messages that will come, by the hour of the day, and those that will wait.

It needs no Spark.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import time_ns
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from django_pgqueue.spark import schema
from django_pgqueue.spark.lake import Lake
from django_pgqueue.spark.lake.rewriting import open_writer
from django_pgqueue.spark.lake.rows import read_table
from django_pgqueue.spark.lake.tables import state_of

if TYPE_CHECKING:
    from django_pgqueue.spark.source import Source

HISTORY = timedelta(days=28)
HOURS = 24
ONE_HOUR = timedelta(hours=1)
FORECAST = schema.arrow_schema("forecast")
KEYS = ["queue", "channel", "hour", "enqueued", "settled"]
COUNTS = ("enqueued", "completed", "popped", "dead")
LIVE = pa.schema([("queue", schema.TEXT), ("channel", schema.TEXT), ("hour_at", schema.TIME), ("messages", schema.BIG)])
# Leased messages count as waiting, because they are not done. Overdue messages are due now.
WAITING = """
SELECT c.queue::text AS queue, c.name::text AS channel,
    date_trunc('hour', greatest(m.dequeue_at, '{now}'::timestamptz)) AS hour_at, count(*) AS messages
FROM pgqueue_message AS m
JOIN pgqueue_channel AS c ON c.id = m.channel_id
WHERE m.dequeue_at < '{now}'::timestamptz + interval '{hours} hours'
GROUP BY 1, 2, 3
"""

# A queue and one of its channels.
Channel = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Seen:
    """The messages of a channel in the hours that were observed.

    ``by_hour``: enqueued messages, by the hour of the day. ``capacity``: messages that were settled in its best hour.
    """

    by_hour: Mapping[int, int]
    capacity: int

    @property
    def enqueued(self) -> int:
        return sum(self.by_hour.values())


NOT_SEEN = Seen({}, 0)


def write_forecast(
    lake: Lake,
    source: Source | None = None,
    now: datetime | None = None,
    *,
    again: bool = True,
) -> int | None:
    """Write the lake's forecast from ``now`` on (default: the clock's time), in place of the forecast of that day.

    The backlog at its start is that of ``source``; without ``source``, nothing waits. ``again``: also when the last
    forecast was made in the same hour, with the same backlog, after the same export. Returns the number of
    rows; None when nothing was written. Raises PipelineError.
    """
    now = now or datetime.now(UTC)
    live = waiting(source, now)
    until = _exported_at(lake, now)
    made_of = {"hour": _hour(now).isoformat(), "until": _hour(until).isoformat(), "waiting": _digest(live)}
    if not again and state_of(lake.delta("forecast")).items() >= made_of.items():
        return None
    with lake.writing() as writing:
        rows = pa.Table.from_pylist(list(forecast(history(lake, now), live, now, until)), FORECAST)
        partition = f"day={now.date()}"
        files = []
        if rows.num_rows:
            path = writing.stage("forecast", partition)
            with open_writer(path, FORECAST) as writer:
                writer.write_table(rows)
            files.append(writing.staged(path))
        made = made_of | {"computed_at": now.isoformat(), "rows": rows.num_rows}
        old = lake.files("forecast", [now.date()])
        writing.commit("forecast", "forecast", files, old, transaction=("pgqueue-forecast", time_ns()), state=made)
    return int(rows.num_rows)


def history(lake: Lake, now: datetime) -> pa.Table:
    """Return the hourly metrics of whole channels in the last 28 days."""
    since = now - HISTORY
    days = {(since + timedelta(days=n)).date() for n in range(HISTORY.days + 1)}
    paths = [path for path in lake.paths("metrics", days) if "grain=hour" in path.parts]

    def whole_channels(rows: pa.Table) -> pa.Table:
        is_channel = pc.equal(rows["level"], "channel")
        return rows.filter(pc.and_(is_channel, pc.greater_equal(rows["bucket_at"], pa.scalar(since, schema.TIME))))

    return read_table("metrics", paths, ["level", "queue", "channel", "bucket_at", *COUNTS], whole_channels)


def forecast(past: pa.Table, live: pa.Table, now: datetime, until: datetime) -> Iterator[dict[str, Any]]:
    """Yield a row for each channel and hour.

    ``past``: hourly metrics of whole channels. ``live``: messages that wait now, by the hour in which they are due.
    ``until``: messages that were settled later are not in the lake yet.
    """
    started = past.group_by("queue").aggregate([("bucket_at", "min")])
    first = dict(zip(started["queue"].to_pylist(), started["bucket_at_min"].to_pylist(), strict=True))
    last_whole = _hour(until) - ONE_HOUR
    # The hours of each queue from its first message to the last export. An hour that has just begun counts when there
    # is no other.
    observed = {queue: _hours_of_day(at, max(at, last_whole)) for queue, at in first.items()}
    seen = _seen(past, first, last_whole)
    due = {(row["queue"], row["channel"], row["hour_at"]): row["messages"] for row in live.to_pylist()}
    for channel in sorted({*seen, *((queue, name) for queue, name, _ in due)}):
        yield from _of_channel(channel, seen.get(channel, NOT_SEEN), observed.get(channel[0], {}), due, now)


def _of_channel(
    channel: Channel,
    seen: Seen,
    observed: Mapping[int, int],
    due: Mapping[tuple[str, str, datetime], int],
    now: datetime,
) -> Iterator[dict[str, Any]]:
    surplus = lowest = 0.0
    for number in range(HOURS):
        hour = _hour(now) + number * ONE_HOUR
        # The present hour counts with the part that is left of it.
        part = min(1.0, (hour + ONE_HOUR - now) / ONE_HOUR)
        if hour.hour in observed:
            enqueued = part * seen.by_hour.get(hour.hour, 0) / observed[hour.hour]
        else:
            # An hour of the day that was never seen is expected to be as the others are.
            enqueued = part * seen.enqueued / (sum(observed.values()) or 1)
        capacity = part * seen.capacity
        surplus += enqueued + due.get((*channel, hour), 0) - capacity
        # A backlog never falls below nothing: an idle hour does not help the next one.
        lowest = min(lowest, surplus)
        yield {
            "computed_at": now,
            "queue": channel[0],
            "channel": channel[1],
            "hour_at": hour,
            "expected_enqueued": enqueued,
            "expected_capacity": capacity,
            "expected_backlog": surplus - lowest,
        }


def _seen(past: pa.Table, first: Mapping[str, datetime], last_whole: datetime) -> dict[Channel, Seen]:
    """Return what was seen of each channel in hours that the lake holds completely."""
    whole = pc.less_equal(past["bucket_at"], pa.scalar(last_whole, schema.TIME))
    for queue, at in first.items():
        if at > last_whole:
            begun = pc.and_(pc.equal(past["queue"], queue), pc.equal(past["bucket_at"], pa.scalar(at, schema.TIME)))
            whole = pc.or_(whole, begun)
    rows = past.filter(whole)
    counts = [pc.fill_null(rows[name], 0) for name in COUNTS]
    settled = pc.add(pc.add(counts[1], counts[2]), counts[3])
    rows = pa.table([rows["queue"], rows["channel"], pc.hour(rows["bucket_at"]), counts[0], settled], names=KEYS)
    by_hour: dict[Channel, dict[int, int]] = {}
    for row in rows.group_by(["queue", "channel", "hour"]).aggregate([("enqueued", "sum")]).to_pylist():
        by_hour.setdefault((row["queue"], row["channel"]), {})[row["hour"]] = row["enqueued_sum"]
    best = rows.group_by(["queue", "channel"]).aggregate([("settled", "max")]).to_pylist()
    return {
        (row["queue"], row["channel"]): Seen(by_hour[row["queue"], row["channel"]], row["settled_max"]) for row in best
    }


def _hours_of_day(first: datetime, last: datetime) -> dict[int, int]:
    """Return how often each hour of the day was observed; hours without messages count."""
    times: dict[int, int] = {}
    for number in range((last - first) // ONE_HOUR + 1):
        hour = (first + number * ONE_HOUR).hour
        times[hour] = times.get(hour, 0) + 1
    return times


def waiting(source: Source | None, now: datetime) -> pa.Table:
    """Return the messages that are due in the next hours, by channel and hour."""
    if source is None:
        return LIVE.empty_table()
    statement = WAITING.format(now=now.isoformat(), hours=HOURS)
    # They are few rows: psycopg has them before ADBC is loaded.
    return pa.Table.from_batches(source.batches(statement, LIVE, adbc=False), LIVE)


def _digest(live: pa.Table) -> str:
    rows = sorted(map(str, live.to_pylist()))
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def _exported_at(lake: Lake, now: datetime) -> datetime:
    exported = lake.state.get("exported_at")
    return min(datetime.fromisoformat(exported), now) if exported else now


def _hour(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
