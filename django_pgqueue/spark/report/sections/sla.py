"""The section about SLAs, which limit the time from enqueued to settled, and how often they were broken."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from django_pgqueue.charts import Series, line_plot, sparkline, stack, value_text
from django_pgqueue.spark.report.html import Safe, Section, html_paragraph, html_table
from django_pgqueue.spark.report.read import Data, channel_rows, sums
from django_pgqueue.spark.report.sections.summary import SETTLED, part

MOST_ROWS = 25


def sla(data: Data) -> Section:
    """Return the section: breaches over time, and a table of the channels. Without an SLA it says how to set one."""
    days = channel_rows(data.by_day)
    days = days.filter(pc.is_valid(days["sla_seconds"]))
    if not days.num_rows:
        message = "No SLA was given to rollup: set SLA in the settings, or give --sla."
        return Section("sla", "SLA", html_paragraph(message))
    rows = sums(days, ["queue", "channel", "sla_seconds"], [*SETTLED, "sla_breaches"])
    rows.sort(key=lambda row: (-row["sla_breaches"], row["queue"], row["channel"]))
    promised = sorted({row["queue"] for row in rows}, key=data.queues.index)
    breaches = [Series(name, data.history[name]["sla_breaches"]) for name in promised]
    chart = stack("Breaches", data.times, breaches, note=f"messages, by {data.grain}")
    chart += line_plot("Kept", data.times, _kept(data, promised), kind="share", note=f"of messages, by {data.grain}")
    lines = html_table(
        f"Channels with an SLA{', the first ' + str(MOST_ROWS) if len(rows) > MOST_ROWS else ''}",
        ["Queue", "Channel", "SLA", "Settled", "Breaches", "Kept", "Kept by day"],
        [
            [
                row["queue"],
                row["channel"],
                value_text(row["sla_seconds"], "seconds"),
                value_text(settled := sum(row[name] for name in SETTLED)),
                value_text(row["sla_breaches"]),
                part(settled - row["sla_breaches"], settled),
                _kept_by_day(days, row["queue"], row["channel"]),
            ]
            for row in rows[:MOST_ROWS]
        ],
        names=2,
    )
    return Section("sla", "SLA", f'<div class="plots">{chart}</div>{lines}')


def _kept(data: Data, queues: list[str]) -> list[Series]:
    """Return for each queue, by bucket, the part of the messages with an SLA that kept it."""
    assert data.tenants is not None  # there is one where there are queues
    promised = data.tenants.filter(pc.is_valid(data.tenants["sla_seconds"]))
    rows = sums(promised, ["queue", "bucket_at"], [*SETTLED, "sla_breaches"])
    kept = {(row["queue"], row["bucket_at"]): _part_kept(row) for row in rows}
    return [Series(queue, [kept.get((queue, time)) for time in data.times]) for queue in queues]


def _kept_by_day(days: pa.Table, queue: str, channel: str) -> Safe | str:
    its = days.filter(pc.and_(pc.equal(days["queue"], queue), pc.equal(days["channel"], channel)))
    rows = sums(its, ["bucket_at"], [*SETTLED, "sla_breaches"])
    kept = [_part_kept(row) for row in sorted(rows, key=lambda row: row["bucket_at"])]
    return Safe(sparkline(f"SLA kept by day of {channel}", kept, kind="share")) if len(kept) > 1 else ""


def _part_kept(row: dict[str, Any]) -> float | None:
    settled = sum(row[name] for name in SETTLED)
    return (settled - row["sla_breaches"]) / settled if settled else None
