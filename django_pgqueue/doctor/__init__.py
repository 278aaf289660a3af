"""Examine a queue: apply the rules of each examination, and report their findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django.conf import settings as django_settings
from django.db import DatabaseError

from django_pgqueue.checks.functions import FUNCTIONS
from django_pgqueue.checks.migrated import find_schema_problem, is_migrated, optional_problems
from django_pgqueue.checks.rules import CRITICAL, NOTE, WARNING, Finding, Limits, Rule, Severity, apply
from django_pgqueue.checks.server import SERVER, TABLES
from django_pgqueue.doctor.flow import STUCK
from django_pgqueue.doctor.indexes import INDEXES
from django_pgqueue.doctor.queues import BREAKERS, LOST_CHANNELS, SHARED_LIMITS, UNKNOWN_HANDLERS, WAITS
from django_pgqueue.doctor.server import CLOCK, HORIZON, NOTIFY, STORAGE, VACUUM
from django_pgqueue.doctor.upkeep import ARCHIVE, COUNTERS, DEAD_LETTERS, HOUSEKEEPING, LAKES
from django_pgqueue.sql.call import alias, bounded_read, primary
from django_pgqueue.sql.files import FLOW, PIPELINE

__all__ = ["CODES", "EXAMINATIONS", "Finding", "Limits", "Report", "Severity", "examination_of", "examine"]

EXAMINATIONS: dict[str, tuple[Rule, ...]] = {
    "drift": (),
    "indexes": INDEXES,
    "waiting": WAITS,
    "shared_limits": SHARED_LIMITS,
    "breakers": BREAKERS,
    "orphans": LOST_CHANNELS,
    "handlers": UNKNOWN_HANDLERS,
    "dead_letters": DEAD_LETTERS,
    "housekeeping": HOUSEKEEPING,
    "counters": COUNTERS,
    "flow": STUCK,
    "horizon": HORIZON,
    "storage": STORAGE,
    "vacuum": VACUUM,
    "archive": ARCHIVE,
    "lakes": LAKES,
    "notifications": NOTIFY,
    "clock": CLOCK,
}
"""The rules of each examination; ``drift`` has those of the system checks."""
CODES = {name: {rule.name for rule in rules} for name, rules in EXAMINATIONS.items()} | {"drift": {"not_migrated"}}
"""The codes of the findings of each examination; drift has those of the system checks, too."""
WITHOUT_TABLES = frozenset({"horizon", "vacuum"})
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
        return max((finding.severity for finding in self.findings), default=NOTE)


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
    if problem is not None and not WITHOUT_TABLES.issuperset(names):
        return Report([Finding("not_migrated", CRITICAL, problem.problem, problem.action)])
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
            return list(drift(using, limits) if name == "drift" else apply(EXAMINATIONS[name], using, limits))
    except DatabaseError as error:
        return [
            Finding(
                "not_examined",
                WARNING,
                f"The examination {name!r} failed: {primary(error)}.",
                "If a right is missing, run manage.py pgqueue rights reader NAME. If it waited for a lock, "
                f"look at pg_locks, and try again with --only {name}.",
                {"examination": name},
            )
        ]


def drift(using: str, limits: Limits) -> Iterator[Finding]:
    """Yield the findings of the database's system checks, unless the project has accepted them by silencing them, and
    missing migrations."""
    is_current = is_migrated(using)
    for finding in apply(SERVER + FUNCTIONS + TABLES if is_current else SERVER, using, limits):
        if finding.code not in django_settings.SILENCED_SYSTEM_CHECKS:
            yield finding
    if not is_current:
        yield Finding(
            "not_migrated",
            CRITICAL,
            f"The database {using!r} has migrations of the queue that this release does not know: a newer release has "
            "migrated it.",
            "Upgrade this package on the hosts that have an older release.",
        )
    else:
        for problem in optional_problems(using, PIPELINE, FLOW):
            yield Finding("not_migrated", WARNING, problem.problem, problem.action)
