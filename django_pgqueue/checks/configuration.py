"""Check the settings, without a database."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from os import PathLike
from typing import Any

from django.apps import apps
from django.conf import settings as django_settings
from django.core.checks import CheckMessage
from django.db import connections, router
from django.utils.module_loading import import_string

from django_pgqueue import codecs, schedules
from django_pgqueue.checks.declared import check_declarations, lake_messages
from django_pgqueue.checks.migrated import NAMES
from django_pgqueue.checks.rules import message
from django_pgqueue.conf import DEFAULTS
from django_pgqueue.redaction import redact
from django_pgqueue.signatures import LOG_LEVELS
from django_pgqueue.sql.call import alias
from django_pgqueue.sql.files import FLOW, PIPELINE, QUEUE

Rule = tuple[str, Callable[[Any], bool]]


def is_text(value: Any) -> bool:
    """Return whether it is a text that is not empty."""
    return isinstance(value, str) and value != ""


def is_whole(value: Any) -> bool:
    """Return whether it is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_long(value: Any) -> bool:
    """Return whether it is a timedelta longer than zero."""
    return isinstance(value, timedelta) and value > timedelta(0)


def is_list(value: Any, is_item: Callable[[Any], bool]) -> bool:
    """Return whether it is a list or tuple of such items."""
    return isinstance(value, list | tuple) and all(map(is_item, value))


def is_dict(value: Any, is_key: Callable[[Any], bool], is_item: Callable[[Any], bool]) -> bool:
    """Return whether it is a dict of such keys and items."""
    return isinstance(value, dict) and all(is_key(key) and is_item(item) for key, item in value.items())


# fmt: off
DURATION: Rule = ("a timedelta longer than zero", is_long)
COUNT: Rule = ("a whole number of at least 1", lambda value: is_whole(value) and value >= 1)
FLAG: Rule = ("True or False", lambda value: isinstance(value, bool))
RETENTION: Rule = ("a timedelta longer than zero, or None", lambda value: value is None or is_long(value))
ALIAS: Rule = ("a database alias or None", lambda value: value is None or isinstance(value, str))
CALLABLES: Rule = ("a list of dotted paths or callables",
    lambda value: is_list(value, lambda item: isinstance(item, str) or callable(item)))
PARAMETER = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
RULES: dict[str, Rule] = {
    "PAYLOAD_CODEC": ("the dotted path of a codec, or None",
        lambda value: value is None or is_text(value) or hasattr(value, "encode")),
    # check_codec looks at them: an error of a rule shows the value.
    "PAYLOAD_KEYS": ("a list of keys, or the dotted path of a function", lambda value: True),
    "DATABASE": ALIAS,
    "NOTIFY": ('"waiting", "always" or "never"', lambda value: value in ("waiting", "always", "never")),
    "LISTEN_DATABASE": ALIAS,
    "MAX_PAYLOAD": ("a number of bytes from 1 to 67108864 (64 MB, the limit of the table)",
        lambda value: is_whole(value) and 1 <= value <= 67_108_864),
    "HANDLER_TIMEOUT": RETENTION,
    "UNKNOWN_HANDLER_GRACE": ("a timedelta of zero or longer",
        lambda value: isinstance(value, timedelta) and value >= timedelta(0)),
    "ARCHIVE_RETENTION": RETENTION,
    "DEAD_LETTER_RETENTION": RETENTION,
    "ENQUEUE_CONTEXT": CALLABLES,
    "HANDLER_MIDDLEWARE": CALLABLES,
    "SET_LOCAL": ("a dict of names of PostgreSQL's settings and keys of the context",
        lambda value: is_dict(value, lambda key: is_text(key) and bool(PARAMETER.fullmatch(key)), is_text)),
    "SET_LOCAL_HEADERS": ("a list of keys of the context",
        lambda value: is_list(value, lambda item: isinstance(item, str))),
    "SCHEDULE_RETENTION": RETENTION,
    "LAKE": ("a path or None",
        lambda value: value is None or (isinstance(value, str | PathLike) and str(value) != "")),
    "LIMITS": ("a dict of names of limits, each with a dict of its options",
        lambda value: is_dict(value, lambda key: True, lambda item: isinstance(item, dict))),
    "LOG_CAPTURE": ("a name of a level of logging, such as \"INFO\", or None",
        lambda value: value is None or value in LOG_LEVELS),
    "METRICS_TOKEN": ("a text or None", lambda value: value is None or is_text(value)),
    "SLA": ("a dict of queues (or queue/channel) and timedeltas longer than zero",
        lambda value: is_dict(value, is_text, is_long)),
    "TRACE_URL": ("a web address with {trace_id}, or None", lambda value: value is None or (
        isinstance(value, str) and value.startswith(("https://", "http://", "/")) and "{trace_id}" in value)),
}
"""The rules of settings whose default does not give their type."""
# fmt: on


def configuration_messages() -> list[CheckMessage]:
    """Return the problems of the settings, the database aliases, the time zone, the schedules, the limits and the
    lake."""
    if messages := check_settings():
        return messages
    return [*check_databases(), *check_time_zones(), *check_schedules(), *check_declarations(), *lake_messages()]


def blocks_database() -> bool:
    """Return whether the settings do not name a PostgreSQL that the queue can use, so that database checks must not
    run."""
    return bool(check_settings()) or any(message.is_serious() for message in check_databases())


def rule_of(name: str) -> Rule | None:
    """Return the rule of a setting: its own, or that of its default's type."""
    if name in RULES:
        return RULES[name]
    kinds = {bool: FLAG, int: COUNT, timedelta: DURATION}
    return kinds.get(type(DEFAULTS[name]))


def check_settings() -> list[CheckMessage]:
    """Return an error for each name and value in DJANGO_PGQUEUE that is wrong."""
    given = getattr(django_settings, "DJANGO_PGQUEUE", {})
    if not isinstance(given, dict):
        problem = f"DJANGO_PGQUEUE is not a dict but {type(given).__name__}."
        hint = 'Write it as DJANGO_PGQUEUE = {"LEASE": timedelta(seconds=15), …}.'
        return [message("pgqueue.E001", problem, hint)]
    known = f"Known settings: {', '.join(sorted(DEFAULTS))}."
    messages = [
        message("pgqueue.E002", f"DJANGO_PGQUEUE has an unknown setting {name!r}.", f"Correct or remove it. {known}")
        for name in sorted(set(given) - set(DEFAULTS), key=str)
    ]
    for name in sorted(set(given) & set(DEFAULTS)):
        rule = rule_of(name)
        if rule is not None and not rule[1](given[name]):
            problem = redact(f"DJANGO_PGQUEUE[{name!r}] is {given[name]!r}, which is not {rule[0]}.")
            messages.append(message("pgqueue.E003", problem, f"Give it {rule[0]}; the default is {DEFAULTS[name]!r}."))
    if not messages:
        messages += [*check_dotted_paths(given), *check_codec(given), *check_trusted_headers(given)]
    for name in ("DATABASE", "LISTEN_DATABASE"):
        if isinstance(given.get(name), str) and given[name] not in connections:
            problem = f"DJANGO_PGQUEUE[{name!r}] is {given[name]!r}, but DATABASES has no such alias."
            messages.append(message("pgqueue.E004", problem, f"Use one of: {', '.join(connections)}."))
    return messages


def check_dotted_paths(given: dict[str, Any]) -> Iterator[CheckMessage]:
    """Yield an error for each dotted path that does not name a callable."""
    for name in ("ENQUEUE_CONTEXT", "HANDLER_MIDDLEWARE"):
        for path in filter(lambda item: isinstance(item, str), given.get(name, ())):
            try:
                problem = None if callable(import_string(path)) else "which cannot be called"
            except Exception as error:  # whatever a module raises when it is imported
                problem = f"which cannot be imported: {type(error).__name__}: {error}"
            if problem:
                problem = f"DJANGO_PGQUEUE[{name!r}] names {path!r}, {problem}."
                yield message("pgqueue.E009", problem, "Correct the dotted path, or the module.")


def check_codec(given: dict[str, Any]) -> list[CheckMessage]:
    """Return an error for a codec that cannot be made, and for keys with which FernetCodec cannot work."""
    if given.get("PAYLOAD_CODEC") is None:
        return []
    try:
        codec = codecs.current()
    except Exception as error:  # whatever a module raises when it is imported
        problems = [f"DJANGO_PGQUEUE['PAYLOAD_CODEC'] cannot be made: {type(error).__name__}: {error}"]
    else:
        needed = ("encode", "decode", "name", "version")
        problems = [f"The codec {codec!r} has no {name}" for name in needed if not hasattr(codec, name)]
        if isinstance(codec, codecs.FernetCodec):
            problems += codecs.problems(given.get("PAYLOAD_KEYS"))
    effect = "Enqueue raises, and encoded messages wait or become dead letters."
    hint = "See docs/how-to/encrypt-payloads.md."
    return [message("pgqueue.E023", f"{problem}. {effect}", hint) for problem in problems]


def check_trusted_headers(given: dict[str, Any]) -> Iterator[CheckMessage]:
    """Yield a warning if headers may choose settings of PostgreSQL."""
    trusted = given.get("SET_LOCAL_HEADERS", ())
    chosen = [name for name, key in given.get("SET_LOCAL", {}).items() if key in trusted]
    if chosen:
        yield message(
            "pgqueue.W005",
            f"The headers of a message choose PostgreSQL's {', '.join(chosen)} for its handler (SET_LOCAL_HEADERS): "
            "each program that may enqueue can name any role or tenant there.",
            "Set it in the context of each channel instead. If only code that you trust may enqueue, silence this "
            "check.",
        )


def check_databases() -> list[CheckMessage]:
    """Return the problems of the queue's alias: engine, driver, routers, and a database without other models."""
    database = alias(None)
    if connections[database].vendor != "postgresql":
        engine = connections[database].settings_dict["ENGINE"]
        problem = f"The queue's database {database!r} is not PostgreSQL: its engine is {engine}."
        hint = (
            "Use the engine django.db.backends.postgresql for it, or name another alias in "
            'DJANGO_PGQUEUE["DATABASE"] and route the app pgqueue there.'
        )
        return [message("pgqueue.E005", problem, hint)]
    messages = []
    if not uses_psycopg3():
        problem = f"The queue's database {database!r} is used through psycopg2, and the queue needs psycopg 3."
        hint = 'Install psycopg 3, which Django prefers: pip install "psycopg[binary]>=3.2.10".'
        messages.append(message("pgqueue.E006", problem, hint))
    routed = check_routers(database)
    messages += routed
    if not routed and stands_alone(database):
        messages.append(
            message(
                "pgqueue.W004",
                f"No model but the queue's is on its database {database!r}: no enqueue is part of the transaction of "
                "your rows, and writes of an atomic handler to another database stay when its message fails.",
                "Keep the queue in the database of the rows that messages are about. If it is meant to be apart, "
                "enqueue in transaction.on_commit(), make handlers idempotent, and silence this check.",
            )
        )
    return messages


def check_routers(database: str) -> list[CheckMessage]:
    """Return a warning for each app of the queue that the routers send elsewhere. One model stands for all of its
    app."""
    routed = {
        (label, name): router.db_for_write(apps.get_model(label, name))
        for label, name in ((QUEUE, "Message"), (PIPELINE, "Lake"), (FLOW, "BatchRecord"))
        if apps.is_installed(NAMES[label])
    }
    return [
        message(
            "pgqueue.W001",
            f'DJANGO_PGQUEUE["DATABASE"] is {database!r}, but the routers send {name} to {other!r}.',
            f"Make a router return the same alias for the app {label}. Otherwise {name}.objects and migrate use the "
            "other database.",
        )
        for (label, name), other in routed.items()
        if other != database
    ]


def stands_alone(database: str) -> bool:
    """Return whether there are other models, and all of them are on other databases."""
    models = [model for model in apps.get_models() if model._meta.managed and model._meta.app_label not in NAMES]
    return bool(models) and database not in {router.db_for_write(model) for model in models}


def uses_psycopg3() -> bool:
    """Return whether Django uses psycopg 3."""
    from django.db.backends.postgresql.psycopg_any import is_psycopg3

    return is_psycopg3


def check_time_zones() -> Iterator[CheckMessage]:
    """Yield an error if USE_TZ is off."""
    if not django_settings.USE_TZ:
        problem = "USE_TZ is False: dates of messages would have no time zone, and dequeue_at would be refused."
        yield message("pgqueue.E007", problem, "Set USE_TZ = True.")


def check_schedules() -> Iterator[CheckMessage]:
    """Yield an error for each declared schedule that is ignored."""
    for problem in schedules.collect_declared_schedules().problems:
        hint = problem.hint or "Correct the arguments of @schedule."
        yield message("pgqueue.E008", f"A schedule in code is ignored: {problem.args[0]}.", hint)
