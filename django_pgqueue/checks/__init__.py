"""Register the system checks. ``msg`` is the problem, ``hint`` the fix; docs/reference/checks.md lists them all.

Each module has one function that returns the messages of its checks, such as ``table_messages()``. It takes the alias
of the queue's database if it needs one. ``configuration`` uses no database and runs with every command. The
others query the queue's database, so they run when Django requests it: ``migrate`` and ``check --database <alias>``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.core.checks import CheckMessage, Tags, register
from django.db import Error as DatabaseProblem

from django_pgqueue.checks.configuration import blocks_database, configuration_messages
from django_pgqueue.checks.functions import function_messages
from django_pgqueue.checks.imports import import_messages
from django_pgqueue.checks.limits import limit_messages
from django_pgqueue.checks.migrated import is_migrated
from django_pgqueue.checks.rights import rights_messages
from django_pgqueue.checks.server import server_messages
from django_pgqueue.checks.tables import table_messages
from django_pgqueue.checks.triggers import trigger_messages
from django_pgqueue.lifecycle.database import alias
from django_pgqueue.sql.files import FOLDERS

DatabaseCheck = Callable[[str], list[CheckMessage]]


def is_asked(app_configs: Sequence[Any] | None) -> bool:
    """Return whether the check is about the queue's apps: ``manage.py check <app labels>`` may name other apps only."""
    return app_configs is None or any(config.label in FOLDERS for config in app_configs)


@register()
def check_configuration(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check the settings."""
    return configuration_messages() if is_asked(app_configs) else []


@register()
def check_imports(app_configs: Sequence[Any] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check that the handlers can be imported."""
    return import_messages() if is_asked(app_configs) else []


@register(Tags.database)
def check_server(
    app_configs: Sequence[Any] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Check the server of the queue's database, and the rights of its role there."""
    # Not only if it is migrated: a role may lack the right to see that.
    return run_database_checks(app_configs, databases, [server_messages, rights_messages])


@register(Tags.database)
def check_objects(
    app_configs: Sequence[Any] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Check the functions, triggers and tables of a migrated database."""
    checks: list[DatabaseCheck] = [function_messages, trigger_messages, table_messages, limit_messages]
    return run_database_checks(app_configs, databases, checks, only_migrated=True)


def run_database_checks(
    app_configs: Sequence[Any] | None,
    databases: Sequence[str] | None,
    checks: list[DatabaseCheck],
    *,
    only_migrated: bool = False,
) -> list[CheckMessage]:
    """Run the checks on the queue's database, if it is among ``databases`` and answers.

    Before 6.1, Django calls database checks without databases too; no database may be queried then.
    """
    if not databases or not is_asked(app_configs) or blocks_database():
        return []
    database = alias(None)
    if database not in databases:
        return []
    try:
        # A check that fails before the migrations are applied would only keep migrate from running.
        if only_migrated and not is_migrated(database):
            return []
        return [message for check in checks for message in check(database)]
    except DatabaseProblem:
        # The code that needs an unreachable server reports it, with a better message.
        return []
