"""The results of the demo, by the archive and the dead letters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from django.db import connection

from flights.channels import LIMITS, OFFICE, ONE_AT_A_TIME, PASSENGERS, PAUSED, QUEUE, RATED, TOWER, WEIGHTED
from flights.demo import queries

UNWEIGHTED = "UA"


@dataclass(frozen=True, slots=True)
class CarrierReport:
    """``wait``: enqueue to lease; ``run``: lease to settlement; ``at_once``: the most leases at any moment."""

    channel: str
    completed: int
    dead: int
    wait_p50: timedelta
    wait_p95: timedelta
    run_p50: timedelta
    run_p95: timedelta
    busy: timedelta
    at_once: int

    @property
    def throughput(self) -> float:
        return (self.completed + self.dead) / max(self.busy.total_seconds(), 0.001)


@dataclass(frozen=True, slots=True)
class LimitReport:
    """A limit, and what was measured; ``held`` is None where there is nothing to break."""

    channel: str
    limit: str
    measured: str
    held: bool | None


@dataclass(frozen=True, slots=True)
class Retries:
    """``error``: what was kept of a failed attempt."""

    sent: int
    retried: int
    error: str | None


@dataclass(frozen=True, slots=True)
class TowerReports:
    """``departed``: what the last one counted. ``twice``: ticks with more than one message."""

    fired: int
    departed: int
    twice: int


def carriers() -> list[CarrierReport]:
    with connection.cursor() as cursor:
        cursor.execute(queries.CARRIERS, {"queue": QUEUE})
        return [CarrierReport(*row) for row in cursor.fetchall()]


def throughput() -> tuple[int, timedelta]:
    """Messages, and the time from the first lease to the last settlement; but for the carrier that was paused."""
    messages, span = _row(queries.SPAN, paused=PAUSED)
    return messages, span or timedelta()


def retries() -> Retries:
    return Retries(*_row(queries.RETRIES, office=OFFICE, channel=PASSENGERS))


def tower() -> TowerReports:
    return TowerReports(*_row(queries.TOWER, office=OFFICE, channel=TOWER))


def limits(reports: Iterable[CarrierReport]) -> list[LimitReport]:
    by_channel = {report.channel: report for report in reports}
    return [
        {ONE_AT_A_TIME: _concurrency, RATED: _rate, WEIGHTED: _weight}[channel](by_channel[channel])
        for channel in LIMITS
        if channel in by_channel
    ]


def _concurrency(report: CarrierReport) -> LimitReport:
    allowed = LIMITS[report.channel]["max_concurrency"]
    return LimitReport(
        report.channel,
        f"max_concurrency={allowed}",
        f"{report.at_once} leased at once",
        report.at_once <= allowed,
    )


def _rate(report: CarrierReport) -> LimitReport:
    interval: timedelta = LIMITS[report.channel]["release_interval"]
    burst: int = LIMITS[report.channel]["release_burst"]
    allowed = burst + timedelta(seconds=1) // interval
    (most,) = _row(queries.BUSIEST_SECOND, channel=report.channel)
    return LimitReport(
        report.channel,
        f"release_interval={interval / timedelta(milliseconds=1):.0f} ms, release_burst={burst}",
        f"{most} in the busiest second, {allowed} allowed",
        most <= allowed,
    )


def _weight(report: CarrierReport) -> LimitReport:
    mine, others = _row(queries.TURNS, channel=report.channel, other=UNWEIGHTED)
    return LimitReport(
        report.channel,
        f"weight={LIMITS[report.channel]['weight']}",
        f"{mine / others:.1f} messages for each one of {UNWEIGHTED}" if others else "too few messages to tell",
        None,
    )


def _row(sql: str, **parameters: str) -> tuple:
    with connection.cursor() as cursor:
        cursor.execute(sql, {"queue": QUEUE, **parameters})
        return cursor.fetchone()
