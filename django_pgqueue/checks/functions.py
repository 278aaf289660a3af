"""Compare the functions and triggers in the database with this release, and install functions again.

``pgtrigger ls`` compares only a comment of a trigger, not what it runs.
"""

from __future__ import annotations

from collections.abc import Iterator

from django.apps import apps
from django.db import connections

from django_pgqueue.checks.migrated import migrated_apps, optional_problems
from django_pgqueue.checks.rules import CRITICAL, WARNING, Limits, Row, Rule
from django_pgqueue.sql import files
from django_pgqueue.sql.call import call
from django_pgqueue.sql.files import FLOW
from django_pgqueue.sql.operations import install

INSTALLED = """
SELECT p.proname::text, array_agg(p.prosrc), bool_and(p.prosecdef),
    bool_or(has_function_privilege('public', p.oid, 'EXECUTE')),
    min((SELECT c FROM unnest(p.proconfig) AS c WHERE c LIKE 'search_path=%%, pg_temp'))
FROM pg_proc AS p
WHERE p.proname = ANY (%s::text[]) AND pg_function_is_visible(p.oid)
GROUP BY p.proname
"""
TRIGGERS = """
SELECT t.tgname::text, c.relname::text, t.tgenabled::text, p.proname::text, obj_description(t.oid, 'pg_trigger')
FROM pg_trigger AS t
JOIN pg_class AS c ON c.oid = t.tgrelid
JOIN pg_proc AS p ON p.oid = t.tgfoid
WHERE NOT t.tgisinternal AND pg_table_is_visible(c.oid) AND t.tgname = ANY (%s::text[])
"""
RUNNING = {"O", "A"}  # 'R': on replicas only, 'D': disabled


def changed_functions(using: str, limits: Limits) -> Iterator[Row]:
    """Yield functions that are missing, changed, doubled or have other rights."""
    versions = files.latest_functions(migrated_apps(using))
    installed = {name: rest for name, *rest in call(using, INSTALLED, (list(versions),))}
    for name, version in versions.items():
        code = f"from django_pgqueue.checks.functions import reinstall; reinstall({using!r}, {name!r})"
        row = {"name": name, "version": version, "repair": f'manage.py shell -c "{code}"'}
        if name not in installed:
            yield row | {"code": "pgqueue.E011"}
            continue
        bodies, is_definer, is_public, search_path = installed[name]
        wanted = files.is_definer(name, version)
        if len(bodies) > 1:
            yield row | {"code": "pgqueue.E013", "times": len(bodies)}
        elif bodies != [files.function_body(name, version)]:
            yield row | {"code": "pgqueue.E012"}
        elif is_public or is_definer != wanted or (wanted and not search_path):
            yield row | {"code": "pgqueue.E018"}


def unmigrated_flow(using: str, limits: Limits) -> Iterator[Row]:
    """Yield the app of batches if it is installed and not migrated."""
    for problem in optional_problems(using, FLOW):
        yield {"problem": problem.problem, "action": problem.action}


def expected_triggers() -> dict[tuple[str, str], tuple[str, str, str]]:
    """Return the URI for pgtrigger's commands, the function and pgtrigger's hash of each trigger, by trigger and
    table."""
    found = {}
    for model in apps.get_app_config("pgqueue").get_models():
        for trigger in getattr(model._meta, "triggers", []):
            key = trigger.get_pgid(model), model._meta.db_table
            found[key] = (
                trigger.get_uri(model),
                trigger.render_execute(model).removesuffix("()"),
                trigger.compile(model).hash,
            )
    return found


def changed_triggers(using: str, limits: Limits) -> Iterator[Row]:
    """Yield triggers that are missing, changed or disabled."""
    wanted = expected_triggers()
    rows = call(using, TRIGGERS, ([name for name, _ in wanted],))
    installed = {(name, table): rest for name, table, *rest in rows}
    option = "" if using == "default" else f" --database {using}"
    for (name, table), (uri, function, wanted_hash) in wanted.items():
        enabled, actual, actual_hash = installed.get((name, table), ("", None, None))
        row = {"name": name, "table": table, "target": f"{uri}{option}", "actual": actual}
        if actual is None:
            yield row | {"code": "pgqueue.E014"}
            continue
        # A trigger that was made by hand has no hash; one of another release has another hash.
        if actual != function or actual_hash != wanted_hash:
            yield row | {"code": "pgqueue.E015"}
        if enabled not in RUNNING:
            yield row | {"code": "pgqueue.E016"}


# fmt: off
FUNCTIONS = (
    Rule("pgqueue.E011", CRITICAL, changed_functions, "",
        "Function {name} is missing in database {database!r}, or outside of the search_path.",
        "Install it: {repair:raw}. Then check again."),
    Rule("pgqueue.E012", CRITICAL, changed_functions, "",
        "Function {name} in database {database!r} is not version {version} of this release.",
        "Install the release's version: {repair:raw}. Then check again."),
    Rule("pgqueue.E018", CRITICAL, changed_functions, "",
        "Function {name} in database {database!r} does not have the rights of this release: every role may run it, or "
        "it runs with other rights, or with the search_path of its caller.",
        "Install it again: {repair:raw}. Then grant it: manage.py pgqueue grant."),
    Rule("pgqueue.E013", CRITICAL, changed_functions, "",
        "Function {name} exists {times} times in database {database!r}, with different parameters: calls of it may "
        "fail as ambiguous.",
        "Drop the ones that are not of this release (psql: \\df {name})."),
    Rule("pgqueue.E014", CRITICAL, changed_triggers, "",
        "Trigger {name} of table {table} is missing in database {database!r}: messages or changed limits are not "
        "noticed.",
        "Install it: manage.py pgtrigger install {target:raw}"),
    Rule("pgqueue.E015", CRITICAL, changed_triggers, "",
        "Trigger {name} of table {table} in database {database!r} is not that of this release; it runs {actual}.",
        "Install the release's version: manage.py pgtrigger install {target:raw}"),
    Rule("pgqueue.E016", CRITICAL, changed_triggers, "",
        "Trigger {name} of table {table} is disabled in database {database!r}: messages or changed limits are not "
        "noticed.",
        "Enable it: manage.py pgtrigger enable {target:raw}"),
)
# The doctor says it as not_migrated. A warning, because an error would keep migrate from running.
OPTIONAL_APPS = (
    Rule("pgqueue.W029", WARNING, unmigrated_flow, "",
        "No batch can be opened in database {database!r}: {problem:raw}",
        "{action:raw}"),
)
# fmt: on


def reinstall(database: str, *names: str) -> None:
    """Install functions of this release again, with their rights, in one transaction; without names: all of them.

    Another session sees the old function or the new one, never one without its search_path. Roles that were granted a
    function keep it. ``database``: alias; its role must own the functions. Raises KeyError for an unknown name.
    """
    versions = files.latest_functions(migrated_apps(database))
    with connections[database].schema_editor() as schema_editor:
        for name in names or versions:
            install(schema_editor, name, versions[name])
