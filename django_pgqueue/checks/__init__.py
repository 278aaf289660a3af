"""System checks. ``msg`` is the problem, ``hint`` the fix; docs/reference/checks.md lists them all.

``configuration`` asks no database and runs with every command. The others ask the queue's database, so they run where
Django asks for it: ``migrate`` and ``check --database <alias>``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.core.checks import CheckMessage, Tags, register
from django.db import Error as DatabaseProblem

from django_pgqueue.checks import configuration, enqueued, functions, imports, server, tables, triggers
from django_pgqueue.checks.migrated import is_migrated
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.files import FOLDERS

DatabaseCheck = Callable[[str], list[CheckMessage]]


def is_asked(app_configs: Sequence[Any] | None) -> bool:
    """``manage.py check <app labels>`` is about other apps, unless ours is among them."""
    return app_configs is None or any(config.label in FOLDERS for config in app_configs)


@register()
def check_configuration(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    return configuration.check() if is_asked(app_configs) else []


@register()
def check_imports(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    return [*imports.check(), *enqueued.check()] if is_asked(app_configs) else []


@register(Tags.database)
def check_server(
    app_configs: Sequence[Any] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    return ask(app_configs, databases, [server.check])


@register(Tags.database)
def check_objects(
    app_configs: Sequence[Any] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    return ask(app_configs, databases, [functions.check, triggers.check, tables.check], only_migrated=True)


def ask(
    app_configs: Sequence[Any] | None,
    databases: Sequence[str] | None,
    checks: list[DatabaseCheck],
    *,
    only_migrated: bool = False,
) -> list[CheckMessage]:
    """The checks' answers about the queue's database, if it is among ``databases`` and can be asked.

    Before 6.1, Django calls database checks without databases too: then nothing may be asked.
    """
    if not databases or not is_asked(app_configs) or configuration.blocks_database():
        return []
    database = alias(None)
    if database not in databases:
        return []
    try:
        # What is not migrated is migrate's business: a check that fails before it would only keep it from running.
        if only_migrated and not is_migrated(database):
            return []
        return [message for check in checks for message in check(database)]
    except DatabaseProblem:
        # An unreachable server is reported by whoever needs it, with a better message.
        return []
