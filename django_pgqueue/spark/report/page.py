"""Write the page: one file without scripts, images or external addresses, and a policy that forbids them."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from django_pgqueue.charts import Series, line_plot, stack, stylesheet, text, value_text
from django_pgqueue.spark.report.read import ENDS, KEYS, Data, at_level, name_of, sums
from django_pgqueue.spark.report.sentences import part, sentences

STYLES = dict(zip(ENDS, ("pgq-1", "pgq-2", "pgq-rest", "pgq-4", "pgq-3", "pgq-bad"), strict=True))
# The most lines of a plot, series of a stack (one more adds up the others), and rows of a table.
MOST_LINES, MOST_PARTS, MOST_ROWS = 6, 7, 25
HEADINGS = (
    "Settled", "Dead letters", "Retries", "Time in handlers", "Share", "On failures", "SLA breaches",
    "Wait p50, worst day", "p95", "p99", "Run p95",
)  # fmt: skip


def page(data: Data) -> str:
    """Return the whole page. Its policy allows its own style, by its hash, and nothing else."""
    style = files("django_pgqueue.spark.report").joinpath("page.css").read_text(encoding="utf-8") + stylesheet()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    title = text("Queue report" if data.subject.channel is None else f"Report of {data.subject.channel}")
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">'
        f"<title>{title}</title><style>{style}</style></head><body>"
        f"<header><h1>{title}</h1><p>{_subtitle(data)}</p></header><main>{_content(data)}</main>"
        f"<footer><p>Made {datetime.now(UTC):%d %b %Y %H:%M} UTC by pgqueue-django.</p></footer></body></html>\n"
    )


def _subtitle(data: Data) -> str:
    if not data.queues:
        return "The lake has no metrics of this period."
    line = f"{' – '.join(dict.fromkeys(f'{day:%d %b %Y}' for day in (data.days[0], data.days[-1])))}. "
    line += f"Plots by {data.grain}; days and times are UTC."
    if data.exported_at:
        line += f" Exported {data.exported_at:%d %b %Y %H:%M}."
    return line + (" More was exported since the last rollup." if data.rollup_due else "")


def _content(data: Data) -> str:
    if not data.queues:
        return "<section><p>Run export and rollup, or ask for more days.</p></section>"
    said = "".join(f"<li>{sentence}</li>" for sentence in sentences(data))
    of_queues = data.subject.channel is None
    levels = ("queue", "channel", "handler") if of_queues else ("channel", "handler")
    plots = _throughput(data) + _waits(data) + _handlers(data, "channel" if of_queues else "handler")
    tables = "".join(_table(data, level) for level in levels)
    return (
        f'<section><h2>What happened</h2><ul>{said}</ul></section><section class="plots">{plots}</section>'
        f"<section>{tables}</section>"
    )


def _throughput(data: Data) -> str:
    rows = {row["bucket_at"]: row for row in sums(at_level(data.by_bucket, data.subject.level), ["bucket_at"])}

    def values(column: str) -> list[int]:
        return [rows[time][column] if time in rows else 0 for time in data.times]

    # The legend leaves out an outcome that never happened.
    outcomes = [
        Series("dead letters" if name == "dead" else name, counts, STYLES[name])
        for name in ENDS
        if any(counts := values(name))
    ]
    line = Series("enqueued", values("enqueued"), "pgq-over")
    return stack("Throughput", data.times, outcomes, line=line, note=f"messages settled, by {data.grain}")


def _waits(data: Data) -> str:
    """Draw the wait of the busiest queues; that of a single one, or of a channel, in three percentiles."""
    rows = at_level(data.by_bucket, data.subject.level).to_pylist()
    names = {
        queue: {row["bucket_at"]: row for row in rows if row["queue"] == queue} for queue in data.queues[:MOST_LINES]
    }

    def line(name: str, queue: str, column: str, style: str = "") -> Series:
        found = names[queue]
        return Series(name, [found[time][column] if time in found else None for time in data.times], style)

    note = "from due to the start of the handler"
    if len(names) == 1:
        [queue] = names
        parts = [line(which, queue, f"wait_{which}_seconds", f"pgq-{which}") for which in ("p50", "p95", "p99")]
        return line_plot("Wait", data.times, parts, kind="seconds", band=(0, 1), note=note)
    several = [line(queue, queue, "wait_p95_seconds") for queue in names]
    return line_plot("Wait p95", data.times, several, kind="seconds", note=note)


def _handlers(data: Data, level: str) -> str:
    """Draw the seconds in handlers by channel or handler."""
    buckets: dict[datetime, Counter[str]] = {time: Counter() for time in data.times}
    total: Counter[str] = Counter()
    for row in sums(at_level(data.by_bucket, level), ("bucket_at", *KEYS[level])):
        name = name_of(row, level) if len(data.queues) > 1 else row[KEYS[level][-1]]
        buckets[row["bucket_at"]][name] += row["run_seconds"]
        total[name] += row["run_seconds"]
    names = [name for name, _ in total.most_common(MOST_PARTS if len(total) > MOST_PARTS + 1 else MOST_PARTS + 1)]
    series = [Series(name, [bucket[name] for bucket in buckets.values()]) for name in names]
    if len(names) < len(total):
        rest = [bucket.total() - sum(bucket[name] for name in names) for bucket in buckets.values()]
        series.append(Series(f"{len(total) - len(names):,} others", rest, "pgq-rest"))
    return stack(f"Time in handlers, by {level}", data.times, series, kind="seconds", note=f"by {data.grain}")


def _table(data: Data, level: str) -> str:
    """Return a table with a row for each queue, channel or handler, the one with most time in handlers first."""
    keys = KEYS[level]
    rows = sorted(sums(at_level(data.by_day, level), keys), key=lambda row: (-row["run_seconds"], -row["settled"]))
    # The share is that of the queue; a queue's, that of all.
    busy: Counter[str] = Counter()
    for row in rows:
        busy["" if level == "queue" else row["queue"]] += row["run_seconds"]
    more = f", the first {MOST_ROWS} of {len(rows):,}" if len(rows) > MOST_ROWS else ""
    heads = "".join(f'<th scope="col">{key.capitalize()}</th>' for key in keys)
    heads += "".join(f'<th scope="col" class="number">{heading}</th>' for heading in HEADINGS)
    lines = "".join(_line(row, keys, busy["" if level == "queue" else row["queue"]]) for row in rows[:MOST_ROWS])
    return (
        f'<div class="wide"><table><caption>{level.capitalize()}s{more}</caption><thead><tr>{heads}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )


def _line(row: dict[str, Any], keys: Sequence[str], busy: float) -> str:
    names = "".join(f'<th scope="row"><bdi>{text(row[key])}</bdi></th>' for key in keys)
    values = [
        *(value_text(row[column]) for column in ("settled", "dead", "retries")),
        value_text(row["run_seconds"], "seconds"),
        part(row["run_seconds"], busy),
        value_text(row["retry_seconds"], "seconds"),
        value_text(row["sla_breaches"]),
        *(value_text(row[f"{what}_seconds"], "seconds") for what in ("wait_p50", "wait_p95", "wait_p99", "run_p95")),
    ]
    return f"<tr>{names}{''.join(f'<td class=number>{value}</td>' for value in values)}</tr>"
