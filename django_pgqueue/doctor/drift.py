"""Report the findings of the database's system checks: server, functions, triggers, tables and missing migrations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from django.apps import apps
from django.core.checks import ERROR, CheckMessage
from django.db import router

from django_pgqueue.checks.functions import function_messages
from django_pgqueue.checks.migrated import NAMES, find_pipeline_problem, is_migrated
from django_pgqueue.checks.server import server_messages
from django_pgqueue.checks.tables import table_messages
from django_pgqueue.checks.triggers import trigger_messages
from django_pgqueue.doctor.finding import Finding, Limits, Severity
from django_pgqueue.sql.files import PIPELINE

# As system checks they are warnings, because a new project does not enqueue yet. In use they stop the queue.
CRITICAL = {"pgqueue.W014"}


def examine_drift(using: str, limits: Limits) -> Iterator[Finding]:
    """Report the system checks' messages as findings."""
    yield from as_findings(server_messages(using))
    if not is_migrated(using):
        yield Finding(
            "not_migrated",
            Severity.CRITICAL,
            f"The database {using!r} has migrations of the queue that this release does not know: a newer release has "
            "migrated it.",
            "Upgrade this package on the hosts that have an older release.",
        )
        return
    for messages in (function_messages, trigger_messages, table_messages):
        yield from as_findings(messages(using))
    # A router may keep the pipeline out of this database.
    if apps.is_installed(NAMES[PIPELINE]) and router.allow_migrate(using, PIPELINE):
        problem = find_pipeline_problem(using)
        if problem is not None:
            yield Finding("not_migrated", Severity.WARNING, problem.problem, problem.action)


def as_findings(messages: Iterable[CheckMessage]) -> Iterator[Finding]:
    """Return the messages that the project has not silenced, as findings."""
    for message in messages:
        # A silenced message is one that the project has accepted.
        if not message.is_silenced():
            is_critical = message.level >= ERROR or message.id in CRITICAL
            severity = Severity.CRITICAL if is_critical else Severity.WARNING
            yield Finding(message.id or "", severity, str(message.msg), str(message.hint))
