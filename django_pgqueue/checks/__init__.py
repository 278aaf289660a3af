"""Register the system checks. ``msg`` is the problem, ``hint`` the fix; docs/reference/checks.md lists them all.

``configuration`` and ``declared`` use no database and run with every command. The others are rules about the queue's
database, so they run when Django requests it: ``migrate`` and ``check --database <alias>``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.core.checks import CheckMessage, Tags, register
from django.db import Error as DatabaseProblem

from django_pgqueue.checks.configuration import blocks_database, configuration_messages
from django_pgqueue.checks.declared import import_messages, limit_messages
from django_pgqueue.checks.functions import FUNCTIONS, OPTIONAL_APPS
from django_pgqueue.checks.migrated import is_migrated
from django_pgqueue.checks.rights import RIGHTS
from django_pgqueue.checks.rules import messages
from django_pgqueue.checks.server import SERVER, TABLES
from django_pgqueue.sql.call import alias
from django_pgqueue.sql.files import FOLDERS


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
    return run_database_checks(app_configs, databases, lambda database: messages(SERVER + RIGHTS, database))


@register(Tags.database)
def check_objects(
    app_configs: Sequence[Any] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Check the functions, triggers, tables and limits of a migrated database."""

    def check(database: str) -> list[CheckMessage]:
        # A check that fails before the migrations are applied would only keep migrate from running.
        if not is_migrated(database):
            return []
        return [*messages(FUNCTIONS + OPTIONAL_APPS + TABLES, database), *limit_messages(database)]

    return run_database_checks(app_configs, databases, check)


def run_database_checks(
    app_configs: Sequence[Any] | None, databases: Sequence[str] | None, check: Callable[[str], list[CheckMessage]]
) -> list[CheckMessage]:
    """Run the check on the queue's database, if it is among ``databases`` and answers.

    Before 6.1, Django calls database checks without databases too; no database may be queried then.
    """
    if not databases or not is_asked(app_configs) or blocks_database():
        return []
    database = alias(None)
    try:
        return check(database) if database in databases else []
    except DatabaseProblem:
        # The code that needs an unreachable server reports it, with a better message.
        return []
