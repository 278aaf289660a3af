"""Check the shared limits: those of the setting LIMITS, and those that handlers name."""

from __future__ import annotations

from django.core.checks import CheckMessage, Error
from django.core.checks import Warning as Caution

from django_pgqueue import handlers, limits
from django_pgqueue.models import SharedLimit

DECLARE = 'Write Limit({name!r}, max_concurrency=…) in handlers.py of an app, or name it in DJANGO_PGQUEUE["LIMITS"]'


def check_declarations() -> list[CheckMessage]:
    """Return an error for each wrong limit of LIMITS, and a warning for each limit that is named and not declared."""
    declared, problems = limits.collect_declared_limits()
    messages: list[CheckMessage] = [
        Error(
            f"A limit of DJANGO_PGQUEUE['LIMITS'] is wrong: {problem.args[0]}.",
            hint=problem.hint or "Correct its options.",
            id="pgqueue.E024",
        )
        for problem in problems
    ]
    messages += [
        Caution(
            f"The limit {name!r} is not declared, and these handlers name it: {', '.join(named)}.",
            hint=f"{DECLARE.format(name=name)}; silence this check if it is made in the admin. Until it exists, a "
            "worker that starts makes it paused, and the messages of these handlers wait.",
            id="pgqueue.W022",
        )
        for name, named in handlers.names_by_limit().items()
        if name not in declared
    ]
    return messages


def limit_messages(database: str) -> list[CheckMessage]:
    """Return an error for each limit that handlers name, and that neither code nor the database has."""
    declared, _problems = limits.collect_declared_limits()
    named = {name: found for name, found in handlers.names_by_limit().items() if name not in declared}
    if not named:
        return []
    rows = SharedLimit.objects.using(database).filter(name__in=named).exclude(pause_reason=limits.UNDECLARED)
    there = set(rows.values_list("name", flat=True))
    return [
        Error(
            f"There is no limit {name!r} in database {database!r}, and these handlers name it: {', '.join(found)}. "
            "Their messages wait.",
            hint=f"{DECLARE.format(name=name)}; or make it in the admin, and resume it there.",
            id="pgqueue.E025",
        )
        for name, found in named.items()
        if name not in there
    ]
