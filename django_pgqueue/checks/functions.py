"""Compare the functions in the database with the files of this release, and install them again."""

from __future__ import annotations

from dataclasses import dataclass

from django.core.checks import CheckMessage, Error
from django.db import connections

from django_pgqueue.checks.migrated import migrated_apps
from django_pgqueue.sql import files
from django_pgqueue.sql.call import call
from django_pgqueue.sql.operations import install

SQL = """
SELECT p.proname::text, array_agg(p.prosrc), bool_and(p.prosecdef),
    bool_or(has_function_privilege('public', p.oid, 'EXECUTE')),
    min((SELECT c FROM unnest(p.proconfig) AS c WHERE c LIKE 'search_path=%%, pg_temp'))
FROM pg_proc AS p
WHERE p.proname = ANY (%s::text[]) AND pg_function_is_visible(p.oid)
GROUP BY p.proname
"""


@dataclass(frozen=True, slots=True)
class Rights:
    """Hold whose rights a function runs with, whether every role may run it, and its search_path."""

    is_definer: bool
    is_public: bool
    search_path: str | None

    def are_those_of(self, name: str, version: int) -> bool:
        """Return whether these are the rights of this release's function."""
        wanted = files.is_definer(name, version)
        return not self.is_public and self.is_definer == wanted and (bool(self.search_path) or not wanted)


def function_messages(database: str) -> list[CheckMessage]:
    """Return an error for each function that is missing, changed, doubled or has other rights."""
    versions = files.latest_functions(migrated_apps(database))
    installed = {name: (bodies, Rights(*rights)) for name, bodies, *rights in call(database, SQL, (list(versions),))}
    messages: list[CheckMessage] = []
    for name, version in versions.items():
        bodies, rights = installed.get(name, (None, None))
        match bodies:
            case None:
                messages.append(
                    Error(
                        f"Function {name} is missing in database {database!r}, or outside of the search_path.",
                        hint=f"Install it: {repair(database, name)}. Then check again.",
                        id="pgqueue.E011",
                    )
                )
            case [body] if body != files.function_body(name, version):
                messages.append(
                    Error(
                        f"Function {name} in database {database!r} is not version {version} of this release.",
                        hint=f"Install the release's version: {repair(database, name)}. Then check again.",
                        id="pgqueue.E012",
                    )
                )
            case [_] if rights and not rights.are_those_of(name, version):
                messages.append(
                    Error(
                        f"Function {name} in database {database!r} does not have the rights of this release: every "
                        "role may run it, or it runs with other rights, or with the search_path of its caller.",
                        hint=f"Install it again: {repair(database, name)}. Then grant it: manage.py pgqueue grant.",
                        id="pgqueue.E018",
                    )
                )
            case [_, _, *_]:
                messages.append(
                    Error(
                        f"Function {name} exists {len(bodies)} times in database {database!r}, with different "
                        "parameters: calls of it may fail as ambiguous.",
                        hint=f"Drop the ones that are not of this release (psql: \\df {name}).",
                        id="pgqueue.E013",
                    )
                )
    return messages


def repair(database: str, name: str) -> str:
    """Return the command that installs the function again."""
    code = f"from django_pgqueue.checks.functions import reinstall; reinstall({database!r}, {name!r})"
    return f'manage.py shell -c "{code}"'


def reinstall(database: str, *names: str) -> None:
    """Install functions of this release again, with their rights, in one transaction; without names: all of them.

    Another session sees the old function or the new one, never one without its search_path. Roles that were granted a
    function keep it. ``database``: alias; its role must own the functions. Raises KeyError for an unknown name.
    """
    versions = files.latest_functions(migrated_apps(database))
    with connections[database].schema_editor() as schema_editor:
        for name in names or versions:
            install(schema_editor, name, versions[name])
