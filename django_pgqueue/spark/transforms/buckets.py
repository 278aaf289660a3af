"""Compute the metrics of a day from its messages, in arrays.

A row of metrics is about an entity, which is a queue, a channel or a handler of a channel, and a bucket: a minute, an
hour or the day.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from django_pgqueue.spark.schema import BIG, COUNTS, FLOAT, TEXT, TIME, arrow_schema
from django_pgqueue.spark.transforms.messages import (
    DAY_MICROSECONDS,
    NAMES,
    OUTCOMES,
    Booleans,
    Durations,
    Integers,
    Messages,
    start_of,
)

WIDTHS = {"minute": 60_000_000, "hour": 3_600_000_000, "day": DAY_MICROSECONDS}  # microseconds
SHARES = (0.5, 0.95, 0.99)
LEVELS = ["queue", "channel", "handler"]
MICROS = 1e6
# Keys are counted in an array up to so many times their number, and sorted beyond.
DENSE = 8
METRICS = pa.schema([field for field in arrow_schema("metrics") if field.name != "grain"])


@dataclass(frozen=True, slots=True)
class Entities:
    """The queues, channels and handlers of a day.

    ``of_messages``: for each level, the entity of each message. ``names``: the columns NAMES of each entity. ``level``:
    the place of each in LEVELS; ``queue``: its queue; ``sla``: the promise in microseconds, -1 if there is none.
    """

    of_messages: Sequence[Integers]
    names: Sequence[pa.Array]
    level: Integers
    queue: Integers
    sla: Integers

    @property
    def count(self) -> int:
        return len(self.level)


def find_entities(names: pa.Table, sla: Mapping[str, int]) -> Entities:
    """Return the entities of these messages. ``sla``: microseconds by "queue" or "queue/channel"."""
    (queue, queues), (channel, channels), (handler, handlers) = (_encoded(names[name]) for name in NAMES)
    pairs, of_channel = numbered(queue * len(channels) + channel, len(queues) * len(channels))
    triples, of_handler = numbered(of_channel * len(handlers) + handler, len(pairs) * len(handlers))
    its_channel, its_handler = np.divmod(triples, max(1, len(handlers)))
    its_queue, its_name = np.divmod(pairs, max(1, len(channels)))
    # First the queues, then their channels, then the handlers of these.
    counts = len(queues), len(pairs), len(triples)
    codes = (
        np.concatenate([np.arange(len(queues)), its_queue, its_queue[its_channel]]),
        np.concatenate([np.full(len(queues), -1), its_name, its_name[its_channel]]),
        np.concatenate([np.full(len(queues) + len(pairs), -1), its_handler]),
    )
    columns = [_taken(values, code) for values, code in zip((queues, channels, handlers), codes, strict=True)]
    return Entities(
        of_messages=(queue, of_channel + counts[0], of_handler + counts[0] + counts[1]),
        names=columns,
        level=np.repeat(np.arange(len(LEVELS)), counts),
        queue=codes[0],
        sla=_promises(columns[0], columns[1], sla),
    )


def numbered(keys: Integers, domain: int) -> tuple[Integers, Integers]:
    """Return the different keys, sorted, and the place of each key among them. Keys are below ``domain``."""
    if domain > DENSE * len(keys) + 1000:
        found, places = np.unique(keys, return_inverse=True)
        return found, places
    present = np.zeros(domain, np.bool_)
    present[keys] = True
    return np.flatnonzero(present), (np.cumsum(present) - 1)[keys]


def day_metrics(day: date, messages: Messages, sla: Mapping[str, int], grains: Sequence[str]) -> dict[str, pa.Table]:
    """Return the rows of each grain, in the order of their entities. ``sla``: microseconds by name."""
    entities = find_entities(messages.names, sla)
    totals = _totals(messages, entities)
    ranked = {what: _ranked(durations) for what, durations in messages.durations.items()}
    return {grain: _rows(day, WIDTHS[grain], messages, entities, totals, ranked) for grain in grains}


def _totals(messages: Messages, entities: Entities) -> dict[str, Integers]:
    """Return what is added up, of each settled message: attempts, retries, microseconds in handlers, breaches."""
    count = len(messages.outcome)
    retries, put_back, wasted = (np.zeros(count, np.int64) for _ in range(3))
    for number, failure in messages.failures:
        retries[number] += failure.put_back
        put_back[number] += failure.micros * failure.put_back
        wasted[number] += failure.micros
    run, total = messages.durations["run"], messages.durations["total"]
    promise = entities.sla[entities.of_messages[1][:count]]
    late = total.known & (total.micros > promise) | (messages.outcome == OUTCOMES.index("dead"))
    return {
        "attempts": messages.attempts,
        "retries": retries,
        "busy": np.where(run.known, run.micros, 0) + put_back,
        "wasted": wasted,
        "breaches": ((promise >= 0) & late).astype(np.int64),
    }


@dataclass(frozen=True, slots=True)
class Ranked:
    """Durations in order. ``message``: the message of each that has one, ``rank``: its place in ``micros``."""

    message: Integers
    rank: Integers
    micros: Integers


def _ranked(durations: Durations) -> Ranked:
    message = np.flatnonzero(durations.known)
    micros = durations.micros[message]
    order = np.argsort(micros)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return Ranked(message, rank, micros[order])


def _rows(
    day: date,
    width: int,
    messages: Messages,
    entities: Entities,
    totals: Mapping[str, Integers],
    ranked: Mapping[str, Ranked],
) -> pa.Table:
    """Return the rows of one grain. ``width``: the microseconds of a bucket."""
    buckets = DAY_MICROSECONDS // width
    settled = messages.settled_at // width
    created = np.flatnonzero((messages.created_at >= 0) & (messages.created_at < DAY_MICROSECONDS))
    keys = [of[: len(settled)] * buckets + settled for of in entities.of_messages]
    keys += [of[created] * buckets + messages.created_at[created] // width for of in entities.of_messages]
    found, places = numbered(np.concatenate(keys), entities.count * buckets)
    count, levels = len(found), len(entities.of_messages)
    enqueued = np.bincount(places[levels * len(settled) :], minlength=count)
    # The row of each message in each level.
    row = places[: levels * len(settled)].reshape(levels, len(settled))
    # The last column is for an outcome that this version does not know.
    ends = len(OUTCOMES) + 1
    ended = np.bincount((row * ends + messages.outcome).ravel(), minlength=count * ends).reshape(count, ends)
    added = {name: _added(row, values, count) for name, values in totals.items()}
    entity, bucket = np.divmod(found, buckets)
    whole = added["busy"][np.searchsorted(found, entities.queue[entity] * buckets + bucket)]
    promise = entities.sla[entity]
    columns = {
        "bucket_at": pa.array(start_of(day) + bucket * width).cast(TIME),
        **{name: pc.take(values, pa.array(entity)) for name, values in zip(NAMES, entities.names, strict=True)},
        "enqueued": enqueued,
        **{name: ended[:, number] for number, name in enumerate(OUTCOMES)},
        "attempts": added["attempts"],
        "retries": added["retries"],
        **_percentiles(row, ranked, count),
        "run_seconds": added["busy"] / MICROS,
        "capacity_share": _floats(added["busy"] / np.where(whole == 0, 1, whole), whole != 0),
        "retry_seconds": added["wasted"] / MICROS,
        "sla_seconds": _floats(promise / MICROS, promise >= 0),
        "sla_breaches": added["breaches"],
        "retries_by_reason": _by_reason(row, [(n, f.reason) for n, f in messages.failures if f.put_back], count),
        "dead_by_reason": _by_reason(row, messages.reasons, count),
        "level": pc.take(pa.array(LEVELS, TEXT), pa.array(entities.level[entity])),
    }
    return pa.table([columns[name] for name in METRICS.names], schema=METRICS)


def _added(row: Integers, values: Integers, count: int) -> Integers:
    """Return the sum of the values of each row, without rounding."""
    total = np.zeros(count, np.int64)
    there = np.flatnonzero(values)
    for its in row:
        np.add.at(total, its[there], values[there])
    return total


def _percentiles(row: Integers, ranked: Mapping[str, Ranked], count: int) -> dict[str, pa.Array]:
    """Return percentile_disc of each row, the smallest value that a share of the values does not exceed."""
    columns = {}
    for what, values in ranked.items():
        size = max(1, len(values.rank))
        # One sort orders the values of all rows: the key is the row, then the rank of the value.
        ordered = np.sort((row[:, values.message] * size + values.rank).ravel())
        number = np.bincount(ordered // size, minlength=count)
        begin = np.cumsum(number) - number
        for share in SHARES:
            at = begin + np.maximum(np.ceil(share * number).astype(np.int64) - 1, 0)
            columns[f"{what}_p{share * 100:.0f}_seconds"] = _at(ordered, at, values, number > 0)
        if what == "total":
            columns["total_max_seconds"] = _at(ordered, begin + number - 1, values, number > 0)
    return columns


def _at(ordered: Integers, at: Integers, values: Ranked, known: Booleans) -> pa.Array:
    """Return the seconds of the values at these places."""
    seconds = np.zeros(len(at))
    seconds[known] = values.micros[ordered[at[known]] % max(1, len(values.rank))] / MICROS
    return _floats(seconds, known)


def _by_reason(row: Integers, events: Sequence[tuple[int, str]], count: int) -> pa.Array:
    """Return for each row how often its messages have each reason. ``events``: message and reason."""
    names = sorted({reason for _, reason in events}, key=str.encode)
    code = {name: number for number, name in enumerate(names)}
    message = np.array([number for number, _ in events], np.int64)
    reason = np.array([code[name] for _, name in events], np.int64)
    keys, number = np.unique((row[:, message] * len(names) + reason).ravel(), return_counts=True)
    its_row, its_reason = np.divmod(keys, max(1, len(names)))
    offsets = np.searchsorted(its_row, np.arange(count + 1)).astype(np.int32)
    reasons = pa.array(names, TEXT).take(pa.array(its_reason))
    return pa.MapArray.from_arrays(pa.array(offsets), reasons, pa.array(number, BIG)).cast(COUNTS)


def _encoded(column: pa.ChunkedArray) -> tuple[Integers, pa.Array]:
    """Return the values of a column as places among its different values, which are sorted."""
    encoded = column.unify_dictionaries().combine_chunks()
    order = pc.sort_indices(encoded.dictionary)
    place = np.empty(len(order), np.int64)
    place[order.to_numpy()] = np.arange(len(order))
    used, codes = numbered(place[encoded.indices.to_numpy()], len(order))
    return codes, encoded.dictionary.take(order.take(pa.array(used)))


def _taken(values: pa.Array, codes: Integers) -> pa.Array:
    """Return the values at these places; NULL for -1."""
    return values.take(pa.array(codes, mask=codes < 0))


def _promises(queues: pa.Array, channels: pa.Array, sla: Mapping[str, int]) -> Integers:
    def promise(queue: str, channel: str | None) -> int:
        limit = None if channel is None else sla.get(f"{queue}/{channel}")
        return sla.get(queue, -1) if limit is None else limit

    if not sla:
        return np.full(len(queues), -1, np.int64)
    pairs = zip(queues.to_pylist(), channels.to_pylist(), strict=True)
    return np.array([promise(queue, channel) for queue, channel in pairs], np.int64)


def _floats(values: NDArray[np.float64], known: Booleans) -> pa.Array:
    return pa.array(values, FLOAT, mask=~known)
