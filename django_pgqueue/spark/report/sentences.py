"""Say what happened: who got slow, since when and why, what failures cost. Each sentence has its number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from django_pgqueue.charts import text, value_text
from django_pgqueue.charts.times import bucket_label
from django_pgqueue.spark.report.read import KEYS, Data, at_level, name_of, reasons, sums, total

# A channel is slow while its wait p95 is this many times its median over the period, and so many seconds longer.
SLOWED, SLOWED_SECONDS = 2.0, 0.1
MOST_SLOW = 3  # channels that have a sentence of their own
# A channel of its queue is the cause if it had this share of the time in handlers meanwhile.
NOISY_SHARE = 0.5
FAILING_SHARE = 0.1  # of attempts
CHANNEL = list(KEYS["channel"])
MEDIAN = "_approximate_median"  # what Arrow adds to the name of a column
USUAL = ("wait_p95_seconds", "run_p95_seconds", "enqueued")


# Neighbouring buckets in which a channel was slow, with the medians of the columns USUAL over the whole period.
Slow = Sequence[Mapping[str, Any]]


def sentences(data: Data) -> Iterator[str]:
    """Yield sentences as HTML. What did not happen has none."""
    whole = at_level(data.by_day, data.subject.level)
    all_of = total(whole)
    yield _settled(data, all_of)
    slow = slow_channels(data)
    for each in slow[:MOST_SLOW]:
        yield _slow(data, each)
    if len(slow) > MOST_SLOW:
        yield f"<b>{len(slow) - MOST_SLOW:,}</b> more channels got slow for a while."
    if all_of["dead"]:
        yield _died(data, whole, all_of)
    if all_of["retry_seconds"]:
        yield _failed(data, whole, all_of)
    if all_of["sla_breaches"]:
        yield _late(data, all_of)
    yield from _busy(data)


def part(value: float, whole: float) -> str:
    """Return a share as percent; a dash if the whole is zero."""
    return value_text(value / whole if whole else None, "share")


def compared_text(now: float, before: float) -> str:
    """Return how a number differs from an earlier one, as "20 % more than"."""
    if abs(now - before) < 0.005 * before:
        return "as many as"
    if now >= 2 * before:
        return f"{now / before:.1f} times as many as"
    return f"{value_text(abs(now - before) / before, 'share')} {'more' if now > before else 'fewer'} than"


def _settled(data: Data, all_of: Mapping[str, Any]) -> str:
    said = f"<b>{value_text(all_of['settled'])}</b> messages were settled."
    now, before = data.now.get("settled"), data.before.get("settled")
    if now and before:
        days, are = (f"{data.compared} days", "are") if data.compared > 1 else ("day", "is")
        said += (
            f" The last {days} that {are} over had <b>{compared_text(now, before)}</b> the {days} before "
            f"({value_text(now)}, before {value_text(before)})."
        )
    return said


def _largest(data: Data, level: str, column: str) -> str:
    """Return the name of the row of a level that has most of a column, with its number."""
    found = max(sums(at_level(data.by_day, level), KEYS[level]), key=lambda row: row[column])
    kind = "seconds" if column.endswith("seconds") else "count"
    return f"<bdi>{text(name_of(found, level))}</bdi> ({value_text(found[column], kind)})"


def _most(counts: Mapping[str, int]) -> str:
    """Return the most frequent reason."""
    reason = max(counts, key=lambda name: (counts[name], name))
    return f"<bdi>{text(reason)}</bdi> ({value_text(counts[reason])})"


def _died(data: Data, whole: pa.Table, all_of: Mapping[str, Any]) -> str:
    said = (
        f"<b>{value_text(all_of['dead'])}</b> messages died, {part(all_of['dead'], all_of['settled'])} of the settled "
        f"ones; most in {_largest(data, 'channel', 'dead')}"
    )
    counts = reasons(whole, "dead_by_reason")
    return f"{said}, and most for the reason {_most(counts)}." if counts else f"{said}."


def _failed(data: Data, whole: pa.Table, all_of: Mapping[str, Any]) -> str:
    said = (
        f"Failed attempts cost <b>{value_text(all_of['retry_seconds'], 'seconds')}</b>, "
        f"{part(all_of['retry_seconds'], all_of['run_seconds'])} of the time in handlers; most of it "
        f"{_largest(data, 'handler', 'retry_seconds')}"
    )
    counts = reasons(whole, "retries_by_reason")
    return f"{said}. Most retries followed {_most(counts)}." if counts else f"{said}."


def _late(data: Data, all_of: Mapping[str, Any]) -> str:
    return (
        f"<b>{value_text(all_of['sla_breaches'])}</b> messages broke the promise (SLA) of their queue or channel, "
        f"{part(all_of['sla_breaches'], all_of['settled'])} of the settled ones; most in "
        f"{_largest(data, 'channel', 'sla_breaches')}."
    )


def _busy(data: Data) -> Iterator[str]:
    """Yield who used most of the time in handlers, where several could."""
    level = "channel" if data.subject.channel is None else "handler"
    rows = sums(at_level(data.by_day, level), KEYS[level])
    busy = sum(row["run_seconds"] for row in rows)
    if len(rows) > 1 and busy:
        yield (
            f"Of {len(rows):,} {level}s, {_largest(data, level, 'run_seconds')} used most of the time in handlers: "
            f"<b>{part(max(row['run_seconds'] for row in rows), busy)}</b>."
        )


def slow_channels(data: Data) -> list[Slow]:
    """Return the time in which each channel was slow with the most messages, the largest number first."""
    # A join knows no columns of maps.
    rows = at_level(data.by_bucket, "channel").select([*CHANNEL, "bucket_at", *USUAL, "completed", "popped", "dead"])
    usual = rows.group_by(CHANNEL).aggregate([(column, "approximate_median") for column in USUAL])
    joined = rows.join(usual, CHANNEL)
    wait, median = joined["wait_p95_seconds"], joined[f"wait_p95_seconds{MEDIAN}"]
    slow = pc.greater_equal(wait, pc.max_element_wise(pc.multiply(median, SLOWED), pc.add(median, SLOWED_SECONDS)))
    order = [(name, "ascending") for name in (*CHANNEL, "bucket_at")]
    runs: list[list[dict[str, Any]]] = []
    for row in joined.filter(slow).sort_by(order).to_pylist():
        last = runs[-1][-1] if runs else None
        goes_on = last and all(last[key] == row[key] for key in CHANNEL)
        if last and goes_on and row["bucket_at"] - last["bucket_at"] == data.width:
            runs[-1].append(row)
        else:
            runs.append([row])
    worst: dict[tuple[str, str], Slow] = {}
    for run in sorted(runs, key=_messages):
        worst[run[0]["queue"], run[0]["channel"]] = run
    return sorted(worst.values(), key=_messages, reverse=True)


def _messages(run: Slow) -> int:
    return sum(row["completed"] + row["popped"] + row["dead"] for row in run)


def _slow(data: Data, slow: Slow) -> str:
    rows, times = at_level(data.by_bucket, "channel"), [row["bucket_at"] for row in slow]
    within = pc.is_in(rows["bucket_at"], pa.array(times, rows["bucket_at"].type))
    channels = sums(rows.filter(pc.and_(pc.equal(rows["queue"], slow[0]["queue"]), within)), CHANNEL)
    [its] = [row for row in channels if row["channel"] == slow[0]["channel"]]
    since, number = bucket_label(times[0], data.width), len(times)
    late = f", {value_text(its['sla_breaches'])} broke their promise" if its["sla_breaches"] else ""
    causes = "; ".join(_causes(slow, its, channels)) or "limits, pauses, or too few workers: the metrics name no other"
    return (
        f"<bdi>{text(name_of(its, 'channel'))}</bdi> got slow on {since}, "
        f"for {number:,} {data.grain}{'s' * (number != 1)}: its wait p95 was up to "
        f"<b>{value_text(its['wait_p95_seconds'], 'seconds')}</b>, usually "
        f"{value_text(slow[0][f'wait_p95_seconds{MEDIAN}'], 'seconds')}; {value_text(its['settled'])} messages were "
        f"settled meanwhile{late}. Why: {causes}."
    )


def _causes(slow: Slow, its: Mapping[str, Any], channels: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what was unusual while a channel was slow. ``channels``: the sums of those of its queue meanwhile."""
    busy = sum(row["run_seconds"] for row in channels)
    for row in channels:
        if row is not its and row["run_seconds"] >= NOISY_SHARE * busy > 0:
            name, share = text(name_of(row, "channel")), part(row["run_seconds"], busy)
            yield f"<bdi>{name}</bdi> had <b>{share}</b> of the time in handlers"
    usual = slow[0][f"enqueued{MEDIAN}"] * len(slow)
    if usual and its["enqueued"] >= SLOWED * usual:
        yield f"it got <b>{its['enqueued'] / usual:.1f} times</b> as many messages as usual"
    if its["retries"] > FAILING_SHARE * its["attempts"]:
        yield f"<b>{part(its['retries'], its['attempts'])}</b> of its attempts failed"
    run, usually = its["run_p95_seconds"], slow[0][f"run_p95_seconds{MEDIAN}"]
    if run and usually and run >= SLOWED * usually:
        yield (
            f"its handlers took up to <b>{value_text(run, 'seconds')}</b> (p95), usually "
            f"{value_text(usually, 'seconds')}"
        )
