"""Check what code declares: handlers, shared limits, and the settings of the pipeline, without importing Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec

from django.apps import apps
from django.core.checks import CheckMessage
from django.core.checks import Warning as Caution

from django_pgqueue import handlers, limits
from django_pgqueue.checks.migrated import INSTALL_PIPELINE, NAMES
from django_pgqueue.checks.rules import message
from django_pgqueue.conf import settings
from django_pgqueue.models import SharedLimit
from django_pgqueue.sql.files import PIPELINE

_tolerated = ContextVar("tolerated", default=False)
DECLARE = 'Write Limit({name!r}, max_concurrency=…) in handlers.py of an app, or name it in DJANGO_PGQUEUE["LIMITS"]'
# Only the pipeline reads these settings.
SETTINGS = ("LAKE", "KEEP_UNTIL_EXPORTED", "SLA")


@contextmanager
def tolerated() -> Iterator[None]:
    """Report broken modules as warnings: a worker runs without their handlers, and starts in spite of them."""
    token = _tolerated.set(True)
    try:
        yield
    finally:
        _tolerated.reset(token)


def import_messages() -> list[CheckMessage]:
    """Return a message for each module of handlers that cannot be imported."""
    found = [
        message(
            "pgqueue.E017",
            f"{module} cannot be imported: {error}",
            "Correct the module. Until then its handlers are missing, and their messages wait.",
        )
        for module, error in handlers.broken.items()
    ]
    return [Caution(each.msg, hint=each.hint, id=each.id) for each in found] if _tolerated.get() else found


def check_declarations() -> list[CheckMessage]:
    """Return an error for each wrong limit of LIMITS, and a warning for each limit that is named and not declared."""
    _declared, problems = limits.collect_declared_limits()
    return [
        message(
            "pgqueue.E024",
            f"A limit of DJANGO_PGQUEUE['LIMITS'] is wrong: {problem.args[0]}.",
            problem.hint or "Correct its options.",
        )
        for problem in problems
    ] + [
        message(
            "pgqueue.W022",
            f"The limit {name!r} is not declared, and these handlers name it: {', '.join(named)}.",
            f"{DECLARE.format(name=name)}; silence this check if it is made in the admin. Until it exists, a worker "
            "that starts makes it paused, and the messages of these handlers wait.",
        )
        for name, named in undeclared_limits().items()
    ]


def limit_messages(database: str) -> list[CheckMessage]:
    """Return an error for each limit that handlers name, and that neither code nor the database has."""
    named = undeclared_limits()
    if not named:
        return []
    rows = SharedLimit.objects.using(database).filter(name__in=named).exclude(pause_reason=limits.UNDECLARED)
    there = set(rows.values_list("name", flat=True))
    return [
        message(
            "pgqueue.E025",
            f"There is no limit {name!r} in database {database!r}, and these handlers name it: {', '.join(found)}. "
            "Their messages wait.",
            f"{DECLARE.format(name=name)}; or make it in the admin, and resume it there.",
        )
        for name, found in named.items()
        if name not in there
    ]


def undeclared_limits() -> dict[str, list[str]]:
    """Return the limits that code names and does not declare, each with the handlers that name it."""
    declared, _problems = limits.collect_declared_limits()
    return {name: named for name, named in handlers.names_by_limit().items() if name not in declared}


def lake_messages() -> list[CheckMessage]:
    """Return the problems of the settings LAKE, KEEP_UNTIL_EXPORTED and SLA."""
    given = [name for name in SETTINGS if getattr(settings, name)]
    if given and not apps.is_installed(NAMES[PIPELINE]):
        kept = " Retention would drop nothing." if "KEEP_UNTIL_EXPORTED" in given else ""
        problem = f"DJANGO_PGQUEUE sets {' and '.join(given)} for the pipeline, whose app {NAMES[PIPELINE]!r} is not "
        hint = f"{INSTALL_PIPELINE} Without a lake, remove the setting."
        return [message("pgqueue.E022", f"{problem}installed.{kept}", hint)]
    messages = []
    missing = [name for name in ("pyspark", "pyarrow") if find_spec(name) is None]
    if settings.LAKE is not None and missing:
        problem = f"DJANGO_PGQUEUE['LAKE'] is set, but {' and '.join(missing)} cannot be imported here."
        hint = 'pip install "pgqueue-django[spark]" where pgqueue lake runs; elsewhere, silence this check.'
        messages.append(message("pgqueue.W002", problem, hint))
    if settings.KEEP_UNTIL_EXPORTED and settings.LAKE is None:
        problem = "DJANGO_PGQUEUE['KEEP_UNTIL_EXPORTED'] is set without LAKE: if nothing exports, the archive grows "
        hint = "Set LAKE and run manage.py pgqueue lake export regularly; silence this check if exports run elsewhere."
        messages.append(message("pgqueue.W003", f"{problem}for ever.", hint))
    return messages
