"""The first section: the main figures, and a line for each queue."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from django_pgqueue.charts import sparkline, value_text
from django_pgqueue.spark.report.html import Safe, Section, html_paragraph, html_table, tiles
from django_pgqueue.spark.report.read import COUNTS, SPENT, Data, queue_rows, sums

SETTLED = ("completed", "popped", "dead")
# The most queues that have a row of their own; one line counts the others.
MOST_QUEUES = 50


def summary(data: Data, *, of_channel: bool = False) -> Section:
    """Return the section: the totals, and a table of the MOST_QUEUES busiest queues.

    ``of_channel``: the report is about one channel, which the data have in place of a queue.
    """
    if not data.queues:
        message = "The lake has no metrics of this period. Run export and rollup, or ask for more days."
        return Section("summary", "Summary", html_paragraph(message))
    days = queue_rows(data.by_day)
    totals = {row["queue"]: row for row in sums(days, ["queue"], [*COUNTS, *SPENT])}
    shown_queues = data.queues[:MOST_QUEUES]
    rows = [_queue(days.filter(pc.equal(days["queue"], queue)), queue, totals[queue]) for queue in shown_queues]
    body = tiles(_figures(list(totals.values())))
    body += html_table("The channel" if of_channel else "Queues, busiest first", HEADINGS, rows)
    if len(data.queues) > MOST_QUEUES:
        body += html_paragraph(
            f"{len(data.queues) - MOST_QUEUES:,} more queues are not shown; choose some with --queue."
        )
    return Section("summary", "Summary", body)


def _figures(totals: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    count = {name: sum(row[name] for row in totals) for name in (*COUNTS, *SPENT)}
    settled = sum(count[name] for name in SETTLED)
    return [
        ("Enqueued", value_text(count["enqueued"]), "and settled since"),
        ("Completed", value_text(count["completed"] + count["popped"]), f"{value_text(count['attempts'])} attempts"),
        ("Dead letters", value_text(count["dead"]), f"{part(count['dead'], settled)} of settled messages"),
        ("Retries", value_text(count["retries"]), f"{part(count['retries'], count['attempts'])} of attempts"),
        ("Time in handlers", value_text(count["run_seconds"], "seconds"), "failed attempts included"),
        (
            "Spent on failures",
            value_text(count["retry_seconds"], "seconds"),
            part(count["retry_seconds"], count["run_seconds"]),
        ),
    ]


def part(value: float, whole: float) -> str:
    """Return a share as percent; a dash if the whole is zero."""
    return value_text(value / whole if whole else None, "share")


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
        value_text(total["completed"] + total["popped"]),
        value_text(total["dead"]),
        part(total["dead"], settled),
        value_text(total["retries"]),
        *(value_text(last[f"wait_{which}_seconds"], "seconds") for which in ("p50", "p95", "p99")),
        Safe(line) if len(days) > 1 else "",
        value_text(last["run_p95_seconds"], "seconds"),
    ]
