"""Drift of the functions: what the database runs against the files of this release."""

from __future__ import annotations

from django.core.checks import CheckMessage, Error

from django_pgqueue.sql import files
from django_pgqueue.sql.call import call

SQL = """
SELECT p.proname::text, array_agg(p.prosrc)
FROM pg_proc AS p
WHERE p.proname = ANY (%s::text[]) AND pg_function_is_visible(p.oid)
GROUP BY p.proname
"""


def check(database: str) -> list[CheckMessage]:
    versions = files.latest_functions()
    installed: dict[str, list[str]] = dict(call(database, SQL, (list(versions),)))
    messages: list[CheckMessage] = []
    for name, version in versions.items():
        path = files.HERE / "functions" / f"{name}_v{version:02}.sql"
        match installed.get(name):
            case None:
                messages.append(
                    Error(
                        f"Function {name} is missing in database {database!r}, or outside of the search_path.",
                        hint=f"Install it: manage.py dbshell --database {database} < {path}",
                        id="pgqueue.E011",
                    )
                )
            case [body] if body != files.body(name, version):
                messages.append(
                    Error(
                        f"Function {name} in database {database!r} is not version {version} of this release.",
                        hint="Install the release's version: sed 's/^CREATE FUNCTION/CREATE OR REPLACE FUNCTION/' "
                        f"{path} | manage.py dbshell --database {database}",
                        id="pgqueue.E012",
                    )
                )
            case [_, _, *_] as bodies:
                messages.append(
                    Error(
                        f"Function {name} is there {len(bodies)} times in database {database!r}, with different "
                        "parameters: calls of it may fail as ambiguous.",
                        hint=f"Drop the ones that are not of this release (psql: \\df {name}).",
                        id="pgqueue.E013",
                    )
                )
    return messages
