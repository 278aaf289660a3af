"""Examine a queue. Each module has one examination, such as ``examine_archive(using, limits)``.

``using`` is a database alias, ``limits`` the values above which something is reported; it returns findings, or none.
An examination only reads. Its cost does not grow with the archive or the backlog: it reads the server's statistics, or
a bounded number of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from django.db import DatabaseError

from django_pgqueue.checks.migrated import find_schema_problem
from django_pgqueue.doctor.archive import examine_archive
from django_pgqueue.doctor.breakers import examine_breakers
from django_pgqueue.doctor.clock import examine_clock
from django_pgqueue.doctor.counters import examine_counters
from django_pgqueue.doctor.dead_letters import examine_dead_letters
from django_pgqueue.doctor.drift import examine_drift
from django_pgqueue.doctor.finding import Finding, Limits, Severity
from django_pgqueue.doctor.handlers import examine_handlers
from django_pgqueue.doctor.horizon import examine_horizon
from django_pgqueue.doctor.housekeeping import examine_housekeeping
from django_pgqueue.doctor.indexes import examine_indexes
from django_pgqueue.doctor.lakes import examine_lakes
from django_pgqueue.doctor.notifications import examine_notifications
from django_pgqueue.doctor.orphans import examine_orphans
from django_pgqueue.doctor.shared_limits import examine_shared_limits
from django_pgqueue.doctor.storage import examine_storage
from django_pgqueue.doctor.vacuum import examine_vacuum
from django_pgqueue.doctor.waiting import examine_waiting
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.call import bounded_read, primary

__all__ = ["EXAMINATIONS", "Finding", "Limits", "Report", "Severity", "examination_of", "examine"]

Examination = Callable[[str, Limits], Iterable[Finding]]

EXAMINATIONS: dict[str, Examination] = {
    "drift": examine_drift,
    "indexes": examine_indexes,
    "waiting": examine_waiting,
    "shared_limits": examine_shared_limits,
    "breakers": examine_breakers,
    "orphans": examine_orphans,
    "handlers": examine_handlers,
    "dead_letters": examine_dead_letters,
    "housekeeping": examine_housekeeping,
    "counters": examine_counters,
    "horizon": examine_horizon,
    "storage": examine_storage,
    "vacuum": examine_vacuum,
    "archive": examine_archive,
    "lakes": examine_lakes,
    "notifications": examine_notifications,
    "clock": examine_clock,
}
CODES: dict[str, tuple[str, ...]] = {
    "drift": ("not_migrated",),
    "indexes": ("index_missing", "index_invalid", "index_in_progress"),
    "waiting": ("no_worker", "waiting", "held", "paused"),
    "shared_limits": (
        "limit_undeclared",
        "limit_paused",
        "limit_waits",
        "limit_stuck",
        "limit_cost",
        "limit_handler_missing",
    ),
    "breakers": ("breaker_open",),
    "orphans": ("channel_missing",),
    "handlers": ("unknown_handler", "handler_missing"),
    "dead_letters": ("dead_letters",),
    "housekeeping": (
        "worker_silent",
        "worker_paused",
        "given_back",
        "lease_expired",
        "no_tick",
        "schedule_late",
        "schedule_failing",
    ),
    "counters": (
        "count_wrong",
        "lease_floor_wrong",
        "over_limit",
        "queue_over_limit",
        "lease_list_wrong",
        "out_of_line",
        "parked",
        "order_key_unreleased",
    ),
    "horizon": (
        "old_transaction",
        "prepared_transaction",
        "slot_behind",
        "slot_left",
        "standby_behind",
        "sessions_hidden",
    ),
    "storage": ("dead_rows", "table_bloat", "index_bloat", "freeze_late"),
    "vacuum": ("vacuum_settings", "vacuum_naps"),
    "archive": ("partitions_behind",),
    "lakes": ("lake_lost",),
    "notifications": ("notify_queue",),
    "clock": ("clock_differs", "clock_went_back"),
}
"""The codes of the findings of each examination; drift has those of the system checks, too."""
SERVER = frozenset({"horizon", "vacuum"})
"""The examinations of the server, which need none of the queue's tables."""
EXAMINATION_SECONDS = 30.0
CHECK_PREFIX = "pgqueue."


@dataclass(frozen=True, slots=True)
class Report:
    """Hold the findings, the worst first."""

    findings: list[Finding]

    @property
    def severity(self) -> Severity:
        """Return the severity of the worst finding."""
        return max((finding.severity for finding in self.findings), default=Severity.NOTE)


def examine(*, using: str | None = None, limits: Limits | None = None, only: Iterable[str] | None = None) -> Report:
    """Run all examinations, or ``only`` those, and return a report. An examination that fails becomes a finding.

    ``only``: names of examinations, or codes of findings, which are then the only ones that are reported. ``using``:
    database alias; default: the queue's. ``limits``: the values above which something is reported. If the database is
    not migrated, that is the only finding, because everything else would follow from it. Raises the database's error
    when it does not answer, and ValueError for a name in ``only`` that is neither.
    """
    database = alias(using)
    asked = set(EXAMINATIONS if only is None else only)
    if unknown := sorted(name for name in asked if examination_of(name) is None):
        raise ValueError(f"no examination and no finding: {', '.join(unknown)}")
    names = [name for name in EXAMINATIONS if any(examination_of(each) == name for each in asked)]
    problem = find_schema_problem(database)
    if problem is not None and not SERVER.issuperset(names):
        return Report([Finding("not_migrated", Severity.CRITICAL, problem.problem, problem.action)])
    found = [
        finding
        for name in names
        for finding in run_examination(name, database, limits or Limits())
        if asked & {name, finding.code} or finding.code == "not_examined"
    ]
    return Report(sorted(found, key=lambda finding: -finding.severity))


def examination_of(name: str) -> str | None:
    """Return the examination that has this name, or whose finding has this code; None if there is none."""
    if name in EXAMINATIONS:
        return name
    if name.startswith(CHECK_PREFIX):
        return "drift"
    return next((examination for examination, codes in CODES.items() if name in codes), None)


def run_examination(name: str, using: str, limits: Limits) -> list[Finding]:
    """Run one examination in a bounded read. Returns its findings, or the finding that it failed."""
    try:
        with bounded_read(using, seconds=EXAMINATION_SECONDS):
            return list(EXAMINATIONS[name](using, limits))
    except DatabaseError as error:
        return [
            Finding(
                "not_examined",
                Severity.WARNING,
                f"The examination {name!r} failed: {primary(error)}.",
                "If a right is missing, run manage.py pgqueue rights reader NAME. If it waited for a lock, "
                f"look at pg_locks, and try again with --only {name}.",
                {"examination": name},
            )
        ]
