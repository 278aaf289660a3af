"""How the demo speaks: tables and lines for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from itertools import zip_longest

from django.core.management.base import OutputWrapper
from django.core.management.color import Style

from flights.demo.check import Check
from flights.demo.pipeline import QueueReport
from flights.demo.report import CarrierReport, LimitReport, Retries, TowerReports
from flights.loading import Rollback

SHOWN = 3


class Output:
    """Writes to the command's stdout, in colour on a terminal."""

    def __init__(self, stdout: OutputWrapper, style: Style) -> None:
        self.stdout = stdout
        self.style = style

    def title(self, text: str) -> None:
        self.stdout.write(f"\n{self.style.MIGRATE_HEADING(text)}")

    def line(self, text: str = "") -> None:
        self.stdout.write(f"   {text}" if text else "\n", ending=None if text else "")

    def rollback(self, size: int, rollback: Rollback) -> None:
        verdict = self.style.SUCCESS("nothing left") if rollback.clean else self.style.ERROR("SOMETHING LEFT")
        self.line(f"{number(size)} in a transaction that is rolled back on purpose: {verdict}")
        for name, counts in (("before", rollback.before), ("inside", rollback.inside), ("after", rollback.after)):
            self.line(f"   {name:<6}  {number(counts.rows):>6} rows  {number(counts.messages):>6} messages")

    def carriers(self, enqueued: dict[str, int], reports: Iterable[CarrierReport]) -> None:
        by_channel = {report.channel: report for report in reports}
        head = ("", "enqueued", "completed", "dead", "wait p50", "p95", "run p50", "p95", "msgs/s", "at once")
        rows = []
        for channel in sorted(enqueued.keys() | by_channel.keys()):
            row = [channel, number(enqueued.get(channel, 0))]
            if report := by_channel.get(channel):
                row += [
                    number(report.completed),
                    number(report.dead),
                    duration(report.wait_p50),
                    duration(report.wait_p95),
                    duration(report.run_p50),
                    duration(report.run_p95),
                    number(report.throughput),
                    number(report.at_once),
                ]
            rows.append(row)
        total = ["all", number(sum(enqueued.values()))]
        total += [number(sum(getattr(r, name) for r in by_channel.values())) for name in ("completed", "dead")]
        self.table([head, *rows, total])

    def retries(self, mails: Retries) -> None:
        self.line(f"{number(mails.sent)} sent, {number(mails.retried)} of them at the second attempt or later")
        if mails.error:
            self.line(f'kept with the message: "{mails.error}"')

    def tower(self, reports: TowerReports) -> None:
        self.line(f"{number(reports.fired)} reports, the last one of {number(reports.departed)} departures")
        verdict = self.style.SUCCESS("none") if not reports.twice else self.style.ERROR(number(reports.twice))
        self.line(f"ticks that fired twice: {verdict}")

    def throughput(self, messages: int, span: timedelta, workers: int) -> None:
        rate = messages / max(span.total_seconds(), 0.001)
        through = "one worker process" if workers == 1 else f"{workers} worker processes"
        self.line()
        self.line(
            self.style.MIGRATE_LABEL(f"{number(rate)} messages/s through {through}")
            + f" ({number(messages)} in {duration(span)}, from the first lease to the last settlement)"
        )

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """The first row is the head; the first column is text, the others are numbers."""
        widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
        for place, row in enumerate(rows):
            cells = [
                f"{cell:<{widths[0]}}" if not column else f"{cell:>{widths[column]}}" for column, cell in enumerate(row)
            ]
            text = "  ".join(cells).rstrip()
            self.line(self.style.MIGRATE_LABEL(text) if place == 0 else text)

    def queues(self, reports: Iterable[QueueReport]) -> None:
        head = ("", "completed", "dead", "retries", "wait p50", "p95", "p99", "total p50", "p95", "p99")
        rows = [
            [
                report.queue,
                number(report.completed),
                number(report.dead),
                number(report.retries),
                *map(duration, (report.wait_p50, report.wait_p95, report.wait_p99)),
                *map(duration, (report.total_p50, report.total_p95, report.total_p99)),
            ]
            for report in reports
        ]
        self.table([head, *rows])

    def limits(self, reports: Sequence[LimitReport]) -> None:
        wide = max((len(report.limit) for report in reports), default=0)
        measured = max((len(report.measured) for report in reports), default=0)
        for report in reports:
            verdict = {True: self.style.SUCCESS("held"), False: self.style.ERROR("EXCEEDED"), None: ""}[report.held]
            self.line(f"{report.channel}  {report.limit:<{wide}}   {report.measured:<{measured}}   {verdict}".rstrip())

    def checks(self, checks: Sequence[Check]) -> None:
        what = max(len(check.what) for check in checks)
        size = max(len(check.size) for check in checks)
        for check in checks:
            verdict = self.style.SUCCESS("match") if check.matches else self.style.ERROR("MISMATCH")
            self.line(f"{check.what:<{what}}   {check.size:<{size}}   {verdict}")
            for difference in check.differences[:SHOWN]:
                self.line(f"   {difference}")
            if len(check.differences) > SHOWN:
                self.line(f"   and {len(check.differences) - SHOWN:,} more")


def number(value: float) -> str:
    return f"{value:,.0f}"


def duration(value: timedelta) -> str:
    seconds = value.total_seconds()
    return f"{seconds * 1000:,.0f} ms" if seconds < 1 else f"{seconds:,.1f} s"
