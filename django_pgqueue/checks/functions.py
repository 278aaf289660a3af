"""Compare the functions in the database with the files of this release."""

from __future__ import annotations

from dataclasses import dataclass

from django.core.checks import CheckMessage, Error

from django_pgqueue.checks.migrated import migrated_apps
from django_pgqueue.sql import files
from django_pgqueue.sql.call import call

SQL = """
SELECT p.proname::text, array_agg(p.prosrc), bool_and(p.prosecdef),
    bool_or(has_function_privilege('public', p.oid, 'EXECUTE')),
    min((SELECT c FROM unnest(p.proconfig) AS c WHERE c LIKE 'search_path=%%, pg_temp')), current_schema()::text
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
    schema: str

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
        path = files.find_file("functions", name, version)
        bodies, rights = installed.get(name, (None, None))
        match bodies:
            case None:
                messages.append(
                    Error(
                        f"Function {name} is missing in database {database!r}, or outside of the search_path.",
                        hint=f"Install it: manage.py dbshell --database {database} < {path}. Then check again.",
                        id="pgqueue.E011",
                    )
                )
            case [body] if body != files.function_body(name, version):
                messages.append(
                    Error(
                        f"Function {name} in database {database!r} is not version {version} of this release.",
                        hint="Install the release's version: sed 's/^CREATE /CREATE OR REPLACE /' "
                        f"{path} | manage.py dbshell --database {database}. Then check again: where that resets "
                        "the rights of the function, pgqueue.E018 says how to set them.",
                        id="pgqueue.E012",
                    )
                )
            case [_] if rights and not rights.are_those_of(name, version):
                messages.append(unsealed(name, version, rights, database))
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


def unsealed(name: str, version: int, rights: Rights, database: str) -> CheckMessage:
    """Return the error for a function with other rights, with the statements that repair it."""
    repair = f"REVOKE ALL ON ROUTINE {name} FROM PUBLIC"
    if files.is_definer(name, version):
        repair += f"; ALTER FUNCTION {name} SECURITY DEFINER SET search_path = {rights.schema}, pg_temp"
    else:
        repair += f"; ALTER ROUTINE {name} SECURITY INVOKER"
    return Error(
        f"Function {name} in database {database!r} does not have the rights of this release: every role may run it, "
        "or it runs with other rights, or with the search_path of its caller.",
        hint=f"As the owner: {repair}. Then grant it again: manage.py queuegrants.",
        id="pgqueue.E018",
    )
