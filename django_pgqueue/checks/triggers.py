"""Compare the triggers in the database with the models. ``pgtrigger ls`` compares only a comment, not what runs."""

from __future__ import annotations

from django.apps import apps
from django.core.checks import CheckMessage, Error

from django_pgqueue.sql.call import call

SQL = """
SELECT t.tgname::text, c.relname::text, t.tgenabled::text, p.proname::text, obj_description(t.oid, 'pg_trigger')
FROM pg_trigger AS t
JOIN pg_class AS c ON c.oid = t.tgrelid
JOIN pg_proc AS p ON p.oid = t.tgfoid
WHERE NOT t.tgisinternal AND pg_table_is_visible(c.oid) AND t.tgname = ANY (%s::text[])
"""
RUNNING = {"O", "A"}  # 'R': on replicas only, 'D': disabled


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


def trigger_messages(database: str) -> list[CheckMessage]:
    """Return an error for each trigger that is missing, changed or disabled."""
    wanted = expected_triggers()
    rows = call(database, SQL, ([name for name, _ in wanted],))
    installed = {(name, table): rest for name, table, *rest in rows}
    messages: list[CheckMessage] = []
    for (name, table), (uri, function, wanted_hash) in wanted.items():
        enabled, actual, actual_hash = installed.get((name, table), ("", None, None))
        option = "" if database == "default" else f" --database {database}"
        if actual is None:
            messages.append(
                Error(
                    f"Trigger {name} of table {table} is missing in database {database!r}: messages or changed limits "
                    "are not noticed.",
                    hint=f"Install it: manage.py pgtrigger install {uri}{option}",
                    id="pgqueue.E014",
                )
            )
            continue
        # A trigger that was made by hand has no hash; one of another release has another hash.
        if actual != function or actual_hash != wanted_hash:
            messages.append(
                Error(
                    f"Trigger {name} of table {table} in database {database!r} is not that of this release; it runs "
                    f"{actual}.",
                    hint=f"Install the release's version: manage.py pgtrigger install {uri}{option}",
                    id="pgqueue.E015",
                )
            )
        if enabled not in RUNNING:
            messages.append(
                Error(
                    f"Trigger {name} of table {table} is disabled in database {database!r}: messages or changed limits "
                    "are not noticed.",
                    hint=f"Enable it: manage.py pgtrigger enable {uri}{option}",
                    id="pgqueue.E016",
                )
            )
    return messages
