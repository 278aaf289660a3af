"""The first section: the main figures, and a line for each queue."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from django_pgqueue.charts import shown, sparkline
from django_pgqueue.spark.report.html import Safe, Section, paragraph, table, tiles
from django_pgqueue.spark.report.read import COUNTS, SPENT, Data, sums, whole_queues

SETTLED = ("completed", "popped", "dead")
# The most queues that have a row of their own; one line counts the others.
MOST_QUEUES = 50


def summary(data: Data) -> Section:
    if not data.queues:
        message = "The lake has no metrics of this period. Run export and rollup, or ask for more days."
        return Section("summary", "Summary", paragraph(message))
    days = whole_queues(data.by_day)
    totals = {row["queue"]: row for row in sums(days, ["queue"], [*COUNTS, *SPENT])}
    shown_queues = data.queues[:MOST_QUEUES]
    rows = [_queue(days.filter(pc.equal(days["queue"], queue)), queue, totals[queue]) for queue in shown_queues]
    body = tiles(_figures(list(totals.values()))) + table("Queues, busiest first", HEADINGS, rows)
    if len(data.queues) > MOST_QUEUES:
        body += paragraph(f"{len(data.queues) - MOST_QUEUES:,} more queues are not shown; choose some with --queue.")
    return Section("summary", "Summary", body)


def _figures(totals: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    count = {name: sum(row[name] for row in totals) for name in (*COUNTS, *SPENT)}
    settled = sum(count[name] for name in SETTLED)
    return [
        ("Enqueued", shown(count["enqueued"]), "and settled since"),
        ("Completed", shown(count["completed"] + count["popped"]), f"{shown(count['attempts'])} attempts"),
        ("Dead letters", shown(count["dead"]), f"{part(count['dead'], settled)} of settled messages"),
        ("Retries", shown(count["retries"]), f"{part(count['retries'], count['attempts'])} of attempts"),
        ("Time in handlers", shown(count["run_seconds"], "seconds"), "under lease"),
        (
            "Spent on failures",
            shown(count["retry_seconds"], "seconds"),
            part(count["retry_seconds"], count["run_seconds"]),
        ),
    ]


def part(value: float, whole: float) -> str:
    return shown(value / whole if whole else None, "share")


HEADINGS = [
    "Queue", "Completed", "Dead letters", "Failed", "Retries",
    "Wait p50, last day", "p95", "p99", "Wait p95 by day", "Run p95, last day",
]  # fmt: skip


def _queue(table: pa.Table, queue: str, total: dict[str, Any]) -> list[object]:
    days = table.sort_by("bucket_at").to_pylist()
    last = days[-1]
    settled = sum(total[name] for name in SETTLED)
    line = sparkline(f"Wait p95 by day of {queue}", [day["wait_p95_seconds"] for day in days], kind="seconds")
    return [
        queue,
        shown(total["completed"] + total["popped"]),
        shown(total["dead"]),
        part(total["dead"], settled),
        shown(total["retries"]),
        *(shown(last[f"wait_{which}_seconds"], "seconds") for which in ("p50", "p95", "p99")),
        Safe(line) if len(days) > 1 else "",
        shown(last["run_p95_seconds"], "seconds"),
    ]
