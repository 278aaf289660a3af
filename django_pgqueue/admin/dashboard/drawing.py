"""Draw figures as HTML: charts, sparklines, meters, linked numbers."""

from __future__ import annotations

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _

from django_pgqueue import charts
from django_pgqueue.admin import rendering
from django_pgqueue.admin.base import Link
from django_pgqueue.admin.counts import LiveCounts
from django_pgqueue.admin.dashboard.figures import ChannelFigures
from django_pgqueue.admin.dashboard.spans import SettledFigures, Spans, Timeline
from django_pgqueue.models import Channel

FULL_SHARE, NEARLY_FULL_SHARE = 1.0, 0.8


def drawn(svg: str) -> SafeString:
    """Mark a chart as safe HTML: it escapes the texts that it is given."""
    return mark_safe(svg)


def linked(link: Link, value: int, page: str, kind: str = "", **query: object) -> str:
    """Return a number that links to its rows; zero has no link."""
    if not value:
        return format_html('<span class="quiet">{}</span>', "0")
    return format_html(
        '<span class="pgqueue-{}" title="{}">{}</span>',
        kind or "plain",
        f"{value:,}",
        link(charts.value_text(float(value)), page, **query),
    )


def course(title: str, spans: Spans) -> SafeString:
    """Return a sparkline of the messages that were settled, or nothing if none was."""
    return drawn(charts.sparkline(title, list(spans.course))) if any(spans.course) else SafeString("")


def seconds_html(value: float | None) -> str:
    """Return a duration in seconds with its unit, which no line break separates; None as a dash."""
    return charts.value_text(value, "seconds").replace(" ", "\N{NO-BREAK SPACE}")


def percentile_pair(fifty: float | None, ninety_five: float | None) -> str:
    """Return the percentiles p50 and p95, or a dash."""
    if fifty is None:
        return format_html('<span class="quiet">{}</span>', "–")
    return format_html(
        '<span class="pgqueue-pair"><span>{}</span> <b>{}</b></span>', seconds_html(fifty), seconds_html(ninety_five)
    )


def times(hour: SettledFigures, day: SettledFigures, what: str) -> str:
    """Return p50 and p95 of the hour, and below them those of the day."""
    return format_html(
        '{}<span class="pgqueue-day">{}</span>',
        *(percentile_pair(getattr(span, f"{what}_p50"), getattr(span, f"{what}_p95")) for span in (hour, day)),
    )


def saturation(channel: ChannelFigures | Channel, live: LiveCounts, spans: Spans) -> str:
    """Return a meter for each limit that the channel has. ``live``: its live messages."""
    meters = []
    if channel.max_concurrency:
        # A channel at its max_concurrency is only late; one at its max_size refuses messages, which is bad.
        meters.append(limit_meter(_("at once"), live.leased, channel.max_concurrency, full="late"))
    if channel.max_size:
        meters.append(limit_meter(_("held"), live.live, channel.max_size))
    if channel.release_interval:
        most = 3600 / channel.release_interval.total_seconds()
        meters.append(limit_meter(_("per hour"), spans.hour.settled, most, full="late"))
    return format_html("{}" * len(meters), *meters) if meters else format_html('<span class="quiet">{}</span>', "–")


def limit_meter(what: str, value: float, limit: float, *, full: str = "bad") -> str:
    """Return a meter of ``value`` against ``limit``. ``full``: its kind at the limit."""
    share = value / limit
    kind = full if share >= FULL_SHARE else "late" if share >= NEARLY_FULL_SHARE else "good"
    text = f"{charts.value_text(value)}/{charts.value_text(limit)}"
    return format_html(
        '<span class="pgqueue-limit">{}<span>{}</span> <span class="quiet">{}</span></span>',
        drawn(charts.meter(what, share, style=f"pgq-{kind}")),
        text,
        what,
    )


def charts_of(line: Timeline, settled: str, waited: str) -> list[SafeString]:
    """Return the charts of settled messages and of waiting times, with these titles."""
    return [settled_chart(settled, line), waiting_chart(waited, line)]


def settled_chart(title: str, line: Timeline) -> SafeString:
    """Return the chart of settled messages."""
    # An empty chart says that there is nothing; zeros would draw its axes.
    columns = line.columns(0 if line.rows else None)
    series = [
        charts.Series(_("completed"), columns[0], "pgq-2"),
        charts.Series(_("cancelled"), columns[1], "pgq-rest"),
        charts.Series(_("dead"), columns[2], "pgq-bad"),
    ]
    retries = charts.Series(_("failed attempts"), columns[3], "pgq-over")
    notes = {1: _("by the minute, UTC"), 60: _("by the hour, UTC")}
    note = notes.get(line.minutes) or _("by %d minutes, UTC") % line.minutes
    return drawn(charts.stack(title, line.times, series, line=retries, note=note))


def waiting_chart(title: str, line: Timeline) -> SafeString:
    """Return the chart of waiting times."""
    columns = line.columns()
    series = [charts.Series("p50", columns[4], "pgq-p50"), charts.Series("p95", columns[5], "pgq-p99")]
    note = _("from due to the start of the handler")
    return drawn(charts.line_plot(title, line.times, series, kind="seconds", band=(0, 1), note=note))


def ago(value: float | None) -> str:
    """Return seconds as ``5 s ago``."""
    return "–" if value is None else _("%s ago") % rendering.seconds_text(max(0.0, value))
