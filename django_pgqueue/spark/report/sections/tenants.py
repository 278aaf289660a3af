"""The section that compares channels: which channel had the capacity, and which channels waited meanwhile."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from django_pgqueue.charts import bars, text, value_text
from django_pgqueue.charts.times import bucket_label
from django_pgqueue.spark.report.html import Safe, Section, folded, html_paragraph, html_table
from django_pgqueue.spark.report.read import WIDTHS, Data, channel_rows, queue_rows, sums
from django_pgqueue.spark.report.sections.summary import part

MOST_BARS, MOST_ROWS, MOST_NEIGHBOURS = 12, 10, 20
# Channels are alike if the largest share is at most so many times the median of all.
ALIKE, FEWEST_ALIKE = 1.5, 4
# A channel is noisy in a bucket if it has at least this share of its queue's time in handlers,
NOISY_SHARE = 0.5
# and others wait at least this many times as long as usual, and at least this many seconds longer.
SLOWED, SLOWED_SECONDS = 2.0, 0.1
COLUMNS = ("completed", "popped", "dead", "retries", "run_seconds", "retry_seconds")


def tenants(data: Data) -> Section:
    """Return the section: the share of each channel in its queue's time, and the waits of its neighbours."""
    days = channel_rows(data.by_day)
    capacity = {row["queue"]: row["run_seconds"] for row in sums(queue_rows(data.by_day), ["queue"], ["run_seconds"])}
    worst = days.group_by(["queue", "channel"]).aggregate([("wait_p95_seconds", "max")]).to_pylist()
    waits = {(row["queue"], row["channel"]): row["wait_p95_seconds_max"] for row in worst}
    rows = sorted(sums(days, ["queue", "channel"], COLUMNS), key=lambda row: -row["run_seconds"])
    largest = sorted(rows, key=lambda row: -_share(row, capacity))[:MOST_BARS]
    several = len(data.queues) > 1
    shares = sorted(_share(row, capacity) for row in rows)
    chart = (
        html_paragraph(_alike(shares))
        if are_alike(shares)
        else bars(
            "Share of its queue's time in handlers",
            [(_name(row, several), _share(row, capacity)) for row in largest],
            kind="share",
            note=f"{len(rows):,} channels" + (f", the {MOST_BARS} largest" if len(rows) > MOST_BARS else ""),
        )
    )
    shown = [_row(row, capacity, waits) for row in rows[:MOST_ROWS]]
    if len(rows) > MOST_ROWS:
        shown.append(_others(rows[MOST_ROWS:], waits))
    lines = html_table(
        f"Channels by time in handlers{', the first ' + str(MOST_ROWS) if len(rows) > MOST_ROWS else ''}",
        ["Queue", "Channel", "Share", "Settled", "Dead letters", "Retries", "Spent on failures", "Wait p95, worst day"],
        shown,
        names=2,
    )
    return Section("tenants", "Tenants", f'<div class="plots">{chart}<div>{_neighbours(data)}</div></div>{lines}')


def are_alike(shares: list[float]) -> bool:
    """Return whether channels with these shares, sorted, are so alike that a chart of them says nothing."""
    return len(shares) >= FEWEST_ALIKE and shares[-1] <= ALIKE * shares[len(shares) // 2]


def _alike(shares: list[float]) -> str:
    return (
        f"The {len(shares):,} channels are alike: each had between {value_text(shares[0], 'share')} and "
        f"{value_text(shares[-1], 'share')} of its queue's time in handlers."
    )


def _others(rows: list[dict[str, Any]], waits: dict[tuple[str, str], float | None]) -> list[str]:
    """Return one row for the channels that have none of their own: their sums, and the longest wait of any."""
    total = {column: sum(row[column] for row in rows) for column in COLUMNS}
    longest = [wait for row in rows if (wait := waits[row["queue"], row["channel"]]) is not None]
    return [
        "",
        f"{len(rows):,} more",
        "",
        value_text(total["completed"] + total["popped"] + total["dead"]),
        value_text(total["dead"]),
        value_text(total["retries"]),
        f"{value_text(total['retry_seconds'], 'seconds')} ({part(total['retry_seconds'], total['run_seconds'])})",
        value_text(max(longest, default=None), "seconds"),
    ]


def _name(row: dict[str, Any], several: bool) -> str:
    return f"{row['queue']} / {row['channel']}" if several else row["channel"]


def _share(row: dict[str, Any], capacity: dict[str, float]) -> float:
    whole = capacity.get(row["queue"], 0)
    return row["run_seconds"] / whole if whole else 0.0


def _row(row: dict[str, Any], capacity: dict[str, float], waits: dict[tuple[str, str], float | None]) -> list[str]:
    return [
        row["queue"],
        row["channel"],
        value_text(_share(row, capacity), "share"),
        value_text(row["completed"] + row["popped"] + row["dead"]),
        value_text(row["dead"]),
        value_text(row["retries"]),
        f"{value_text(row['retry_seconds'], 'seconds')} ({part(row['retry_seconds'], row['run_seconds'])})",
        value_text(waits[row["queue"], row["channel"]], "seconds"),
    ]


def noisy(rows: pa.Table) -> list[dict[str, Any]]:
    """Return the buckets in which one channel had most of the capacity while others waited longer than usual.

    The worst come first. The usual wait is the median of a channel's own wait p95 over the buckets of the period.
    """
    loud = rows.filter(pc.greater_equal(rows["capacity_share"], NOISY_SHARE))
    if not loud.num_rows:
        return []
    usual = rows.group_by(["queue", "channel"]).aggregate([("wait_p95_seconds", "approximate_median")])
    compared = rows.filter(pc.is_in(rows["bucket_at"], loud["bucket_at"].combine_chunks()))
    compared = compared.join(usual, ["queue", "channel"])
    wait, median = compared["wait_p95_seconds"], compared["wait_p95_seconds_approximate_median"]
    slow = pc.greater_equal(wait, pc.max_element_wise(pc.multiply(median, SLOWED), pc.add(median, SLOWED_SECONDS)))
    victims: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in compared.filter(slow).to_pylist():
        victims.setdefault((row["queue"], row["bucket_at"]), []).append(row)
    found = []
    for row in loud.to_pylist():
        others = [one for one in victims.get((row["queue"], row["bucket_at"]), []) if one["channel"] != row["channel"]]
        if others:
            longest = max(others, key=lambda one: one["wait_p95_seconds"])
            found.append(row | {"slowed": len(others), "longest": longest})
    return sorted(found, key=lambda row: (-row["slowed"], -row["capacity_share"]))


def _neighbours(data: Data) -> str:
    grain = "minute" if data.grain == "minute" else "hour"
    rule = (
        f"{grain.capitalize()}s in which one channel had at least {value_text(NOISY_SHARE, 'share')} of its "
        "queue's time in handlers, and the wait p95 of others was at least "
        f"{SLOWED:g} times their own median, and {value_text(SLOWED_SECONDS, 'seconds')} more."
    )
    found = noisy(data.compared)
    if not found:
        return html_paragraph("No noisy neighbours.") + f'<p class="quiet">{rule}</p>'
    headings = [grain.capitalize(), "Queue", "Channel", "Share", "Slowed", "Worst off", "Its wait p95", "Usually"]
    rows = [
        [
            bucket_label(row["bucket_at"], WIDTHS[grain]),
            row["queue"],
            row["channel"],
            value_text(row["capacity_share"], "share"),
            f"{row['slowed']:,}",
            Safe(f"<bdi>{text(row['longest']['channel'])}</bdi>"),
            value_text(row["longest"]["wait_p95_seconds"], "seconds"),
            value_text(row["longest"]["wait_p95_seconds_approximate_median"], "seconds"),
        ]
        for row in found[:MOST_NEIGHBOURS]
    ]
    more = f", the worst {MOST_NEIGHBOURS} of {len(found):,}" if len(found) > MOST_NEIGHBOURS else ""
    return html_table(f"Noisy neighbours{more}", headings, rows, names=3) + folded(
        "How noisy neighbours are found", html_paragraph(rule)
    )
