from __future__ import annotations

import json
import sys
from argparse import ArgumentTypeError
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import Error

from django_pgqueue import doctor
from django_pgqueue.checks.migrated import find_schema_problem
from django_pgqueue.doctor.finding import Finding, Limits
from django_pgqueue.lifecycle.repair import RepairCounts, repair
from django_pgqueue.management.database import database_error, known_database

UNKNOWN_STATUS = 3
"""The exit status when the database does not answer; monitors read it as *unknown*."""
WIDTH_CHARACTERS = 10


class Command(BaseCommand):
    help = (
        "Examines the queue and its database: sessions that keep dead rows, objects that are missing or changed, "
        "messages that wait, counts that disagree. Exit status 0: only notes; 1: warnings; 2: critical; 3: the "
        "database does not answer."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--format", dest="form", choices=["text", "json"], default="text", help="json: for programs"
        )
        parser.add_argument("--fix", action="store_true", help="repair counts and places that disagree, then examine")
        parser.add_argument(
            "--only", action="append", type=examined, metavar="NAME", help="only this examination, or this finding"
        )
        parser.add_argument(
            "--old-transaction",
            type=float,
            metavar="SECONDS",
            help="the age from which a transaction is old (default: 300)",
        )
        parser.add_argument(
            "--max-wait", type=float, metavar="SECONDS", help="how long a channel may wait (default: WAITING_WARNING)"
        )
        parser.add_argument("--database", help="alias of the queue's database (default: as enqueue does)")

    def handle(self, *, form: str, fix: bool, only: list[str] | None, database: str | None, **given: Any) -> None:
        using = known_database(database, status=UNKNOWN_STATUS)
        try:
            repaired = repair(using=using) if fix and find_schema_problem(using) is None else None
            report = doctor.examine(using=using, limits=limits(**given), only=only)
        except Error as error:
            raise database_error(using, error, status=UNKNOWN_STATUS) from error
        self.stdout.write(report_as_json(report, repaired) if form == "json" else report_as_text(report, repaired))
        if report.severity:
            sys.exit(report.severity)


def examined(text: str) -> str:
    """Return the name of an examination or the code of a finding. Raises ArgumentTypeError for any other text."""
    if doctor.examination_of(text) is None:
        known = ", ".join(doctor.EXAMINATIONS)
        raise ArgumentTypeError(f"{text!r} is no examination and no finding. Examinations: {known}.")
    return text


def limits(*, old_transaction: float | None, max_wait: float | None, **options: Any) -> Limits:
    """Return the limits that the options set."""
    given: dict[str, Any] = {}
    if old_transaction is not None:
        given["old_transaction"] = timedelta(seconds=old_transaction)
    if max_wait is not None:
        given["waiting"] = timedelta(seconds=max_wait)
    return Limits(**given)


def report_as_json(report: doctor.Report, repaired: RepairCounts | None) -> str:
    """Return the report as a JSON document."""
    document = {
        "version": 1,
        "severity": report.severity.word,
        "status": int(report.severity),
        "repaired": repaired and asdict(repaired),
        "findings": [{**asdict(finding), "severity": finding.severity.word} for finding in report.findings],
    }
    return json.dumps(document, indent=2)


def report_as_text(report: doctor.Report, repaired: RepairCounts | None) -> str:
    """Return the report as text, the worst finding first, with the counts at the end."""
    lines = []
    if repaired is not None:
        lines.append(
            f"repaired: {repaired.counts} counts, {repaired.lease_floors} lease floors, {repaired.places} places\n"
        )
    lines += [finding_as_text(finding) for finding in report.findings]
    counts = ", ".join(
        f"{sum(finding.severity == severity for finding in report.findings)} {severity.word}"
        for severity in reversed(doctor.Severity)
    )
    return "\n".join([*lines, counts])


def finding_as_text(finding: Finding) -> str:
    """Return one finding as text."""
    indent = " " * WIDTH_CHARACTERS
    head = f"{finding.severity.word.upper():{WIDTH_CHARACTERS}}{finding.code}"
    return f"{head}\n{indent}{finding.problem}\n{indent}> {finding.action}\n"
