"""The section about the cost of failed attempts: the time that they took in handlers."""

from __future__ import annotations

from django_pgqueue.charts import bars, value_text
from django_pgqueue.spark.report.html import Section, html_paragraph, html_table
from django_pgqueue.spark.report.read import Data, handler_rows, sums
from django_pgqueue.spark.report.sections.summary import part

MOST_ROWS = 25


def retries(data: Data) -> Section:
    """Return the section: the time of failed attempts, by handler, as a chart and a table."""
    columns = ["completed", "dead", "attempts", "retries", "run_seconds", "retry_seconds"]
    rows = [row for row in sums(handler_rows(data.by_day), ["queue", "handler"], columns) if row["attempts"]]
    rows.sort(key=lambda row: (-row["retry_seconds"], -row["run_seconds"]))
    several = len(data.queues) > 1
    chart = bars(
        "Time spent on failed attempts",
        [
            (f"{row['queue']} / {row['handler']}" if several else row["handler"], row["retry_seconds"])
            for row in rows[:12]
        ],
        kind="seconds",
        note="by handler",
    )
    lines = html_table(
        f"Handlers{', the first ' + str(MOST_ROWS) if len(rows) > MOST_ROWS else ''}",
        ["Queue", "Handler", "Attempts", "Retries", "Dead letters", "Time in handlers", "On failed attempts", "Part"],
        [
            [
                row["queue"],
                row["handler"],
                value_text(row["attempts"]),
                value_text(row["retries"]),
                value_text(row["dead"]),
                value_text(row["run_seconds"], "seconds"),
                value_text(row["retry_seconds"], "seconds"),
                part(row["retry_seconds"], row["run_seconds"]),
            ]
            for row in rows[:MOST_ROWS]
        ],
        names=2,
    )
    remark = html_paragraph(
        "Attempts that did not note their beginning, of messages that an older version settled, count as no time."
    )
    return Section("retries", "Cost of failures", f'<div class="plots">{chart}</div>{lines}{remark}')
