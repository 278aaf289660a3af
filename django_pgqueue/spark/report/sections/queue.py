"""The section of one queue over time: throughput, the three times, failures, capacity by channel."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow.compute as pc

from django_pgqueue.charts import Series, line_plot, stack, value_text
from django_pgqueue.charts.times import bucket_label
from django_pgqueue.spark.report.html import Section, folded, html_table
from django_pgqueue.spark.report.read import TIMES, Data, QueueHistory, sums

OUTCOMES = {
    "completed": "pgq-1",
    "popped": "pgq-2",
    "cancelled": "pgq-3",
    "purged": "pgq-rest",
    "dropped": "pgq-4",
    "dead": "pgq-bad",
}
WAITS = [
    ("wait", "Wait", "from due to the start of the handler"),
    ("run", "Run", "the last attempt, from the start of the handler to settled"),
    ("total", "End to end", "from enqueued to settled"),
]
# The most series with a colour of their own in a stack; the others are added up into one more.
MOST_PARTS = 7


def queue(data: Data, name: str, number: int, *, of_channel: bool = False) -> Section:
    """Return the section of one queue: charts, and their numbers as a table. ``number`` makes its anchor.

    ``of_channel``: it is that of a channel instead.
    """
    history = data.history[name]
    drawn = [
        _throughput(data, history),
        _depth(data, history),
        _oldest(data, history),
        *(_times(data, history, *which) for which in WAITS),
        _reasons(data, history, "dead_by_reason", "Dead letters by reason"),
        _reasons(data, history, "retries_by_reason", "Retries by error"),
        "" if of_channel else _capacity(data, name),
    ]
    body = f'<div class="plots">{"".join(drawn)}</div>' + folded("Numbers", _numbers(data, history))
    return Section(f"queue-{number}", f"{'Channel' if of_channel else 'Queue'} {name}", body)


def _throughput(data: Data, history: QueueHistory) -> str:
    # The legend leaves out an outcome that never happened.
    happened = [(name, style) for name, style in OUTCOMES.items() if history.total(name)]
    outcomes = [Series("dead letters" if name == "dead" else name, history[name], style) for name, style in happened]
    line = Series("enqueued", history["enqueued"], "pgq-over")
    return stack("Throughput", data.times, outcomes, line=line, note=f"messages settled, by {data.grain}")


def _depth(data: Data, history: QueueHistory) -> str:
    note = f"messages that wait or run at the end of the {data.grain}, of those that are settled by now"
    return line_plot("Queue depth", data.times, [Series("messages", history["depth"], "pgq-1")], note=note)


def _oldest(data: Data, history: QueueHistory) -> str:
    series = [Series("age at its end", history["total_max_seconds"], "pgq-bad")]
    note = f"the oldest that was settled, by {data.grain}"
    return line_plot("Oldest message", data.times, series, kind="seconds", note=note)


def _times(data: Data, history: QueueHistory, what: str, title: str, note: str) -> str:
    series = [Series(which, history[f"{what}_{which}_seconds"], f"pgq-{which}") for which in ("p50", "p95", "p99")]
    return line_plot(title, data.times, series, kind="seconds", band=(0, 1), note=note)


def _reasons(data: Data, history: QueueHistory, column: str, title: str) -> str:
    buckets = history[column]
    total: Counter[str] = Counter()
    for bucket in buckets:
        total.update(bucket)
    return stack(title, data.times, parts(buckets, total), note=f"by {data.grain}")


def parts(buckets: list[dict[str, float]], total: Counter[str]) -> list[Series]:
    """Return a series for each of the largest names, and one more for the sum of the others."""
    names = [name for name, _ in total.most_common(MOST_PARTS if len(total) > MOST_PARTS + 1 else MOST_PARTS + 1)]
    found = [Series(name, [bucket.get(name, 0) for bucket in buckets]) for name in names]
    if len(names) < len(total):
        rest = [sum(bucket.values()) - sum(bucket.get(name, 0) for name in names) for bucket in buckets]
        found.append(Series(f"{len(total) - len(names):,} others", rest, "pgq-rest"))
    return found


def _capacity(data: Data, name: str) -> str:
    """Return the chart of seconds in handlers by channel."""
    assert data.tenants is not None  # there is one where there are queues
    rows = data.tenants.filter(pc.equal(data.tenants["queue"], name)).select(["bucket_at", "channel", "run_seconds"])
    total: Counter[str] = Counter()
    for row in sums(rows, ["channel"], ["run_seconds"]):
        total[row["channel"]] = row["run_seconds"]
    places = {time: place for place, time in enumerate(data.times)}
    buckets: list[dict[str, float]] = [{} for _ in data.times]
    for row in rows.to_pylist():
        buckets[places[row["bucket_at"]]][row["channel"]] = row["run_seconds"] or 0.0
    return stack("Capacity by channel", data.times, parts(buckets, total), kind="seconds", note="time in handlers")


def _numbers(data: Data, history: QueueHistory) -> str:
    headings = [data.grain.capitalize(), "Enqueued", *(name.capitalize() for name in OUTCOMES), "Retries", "Depth"]
    headings += [f"{what} {which}" for what in ("Wait", "Run", "Total") for which in ("p50", "p95", "p99")]
    headings.append("Oldest")
    counts = ["enqueued", *OUTCOMES, "retries", "depth"]
    rows = []
    for place, time in enumerate(data.times):
        row: list[Any] = [value_text(history[name][place]) for name in counts]
        row += [value_text(history[name][place], "seconds") for name in TIMES]
        rows.append([bucket_label(time, data.width), *row])
    return html_table(f"Figures by {data.grain}, UTC", headings, rows)
