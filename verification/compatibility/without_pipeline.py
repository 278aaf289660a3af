"""The life of a project without the optional apps, on an empty database; prints the results as JSON."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from io import StringIO
from pathlib import Path
from typing import Any

import django
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import connection

ROLE = "pgqueue_test_without_pipeline"
RELATIONS = "SELECT relname FROM pg_class WHERE relname LIKE 'pgqueue%'"
FUNCTIONS = "SELECT proname FROM pg_proc WHERE proname LIKE 'pgqueue%'"
THROWAWAY = {"pgqueue.W010", "pgqueue.W011"}


def main() -> None:
    django.setup()
    call_command("migrate", verbosity=0)
    results: dict[str, Any] = {"relations": names(RELATIONS), "functions": names(FUNCTIONS)}
    results["checks"] = sorted({message.id for message in checks.run_checks(databases=["default"])} - THROWAWAY)
    results["no changes"] = not call_command("makemigrations", check_changes=True, dry_run=True, verbosity=0)
    results["batch"] = batch()
    results["explained"] = explain()
    call_command("runqueueworker", drain=True, processes=0)
    results |= run_maintenance()
    commands = ("pgqueue health", "pgqueue stats", "sweepqueue")
    results["commands"] = {words: said(*words.split()) for words in commands}
    results["lake"] = [said("pgqueue", "lake", action) for action in ("export", "report")]
    results["grants"] = grant()
    results["pages"] = pages()
    results["spark"] = spark()
    results["flushed"] = flush()
    call_command("migrate", "pgqueue", "zero", verbosity=0)
    results["after zero"] = names(RELATIONS) + names(FUNCTIONS)
    json.dump(results, sys.stdout)


def names(sql: str) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return sorted(name for (name,) in cursor.fetchall())


def said(*command: str) -> str:
    """Return the output of a command, or its error."""
    output = StringIO()
    try:
        call_command(*command, stdout=output, skip_checks=True)
    except CommandError as error:
        return f"CommandError: {error}"
    except SystemExit as end:
        return f"{output.getvalue()}exit {end.code}"
    return output.getvalue()


def batch() -> str:
    """Return the error of a program that opens a batch."""
    from django_pgqueue.flow import Batch

    try:
        Batch()
    except ImproperlyConfigured as error:
        return repr(error)
    return "opened"


def explain() -> list[str]:
    from django_pgqueue import enqueue, explain_message

    for handler in ("atomic", "plain", "asynchronous", "refused"):
        last = enqueue(f"shop.{handler}", "one")
    assert last.id is not None
    return [line.code for line in explain_message(last.id)]


def run_maintenance() -> dict[str, Any]:
    """Retention, also the one that waits for a lake, the doctor, and what is left of a dead letter."""
    from django.test import override_settings

    from django_pgqueue import delete_dead, prune
    from django_pgqueue.doctor import examine
    from django_pgqueue.models import ArchivedMessage, DeadLetter

    results: dict[str, Any] = {
        "completed": ArchivedMessage.objects.filter(outcome="completed").count(),
        "dead": list(DeadLetter.objects.values_list("handler", flat=True)),
    }
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE pgqueue_archived_message_20200101 PARTITION OF pgqueue_archived_message"
            " FOR VALUES FROM ('2020-01-01T00:00Z') TO ('2020-01-02T00:00Z')"
        )
    letters = list(DeadLetter.objects.values_list("pk", flat=True))
    with override_settings(DJANGO_PGQUEUE={"KEEP_UNTIL_EXPORTED": True}):
        kept = prune()
        results["discarded"] = [*delete_dead(letters).values()]
        results["checks of settings"] = [message.id for message in checks.run_checks()]
    dropped = prune()
    results["kept"] = [kept.partitions_kept, kept.partitions_dropped]
    results["dropped"] = [dropped.partitions_kept, dropped.partitions_dropped]
    results["discarded"] += delete_dead(letters).values()
    results["doctor"] = sorted({finding.code for finding in examine().findings} - THROWAWAY)
    return results


def grant() -> dict[str, str]:
    """Return the output of `pgqueue rights` after each kind was granted, and why the pipeline is not."""
    results = {}
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE ROLE {ROLE}")
        try:
            for kind in ("producer", "worker", "operator", "reader", "pipeline"):
                said("pgqueue", "grant", kind, ROLE)
                results[kind] = said("pgqueue", "rights", kind, ROLE)
        finally:
            cursor.execute(f"DROP OWNED BY {ROLE}; DROP ROLE {ROLE}")
    return results


def pages() -> dict[str, Any]:
    """The admin's index, and the status of each page of the queue."""
    from django.contrib import admin
    from django.contrib.auth.models import User
    from django.test import Client
    from django.urls import reverse

    client = Client(headers={"host": "localhost"})
    client.force_login(User.objects.create_superuser("admin"))
    models = [model for model in admin.site._registry if model._meta.app_label.startswith("pgqueue")]
    lists = {
        meta.label: client.get(reverse(f"admin:{meta.app_label}_{meta.model_name}_changelist")).status_code
        for meta in (model._meta for model in models)
    }
    return {"lists": lists, "index": "pipeline" in client.get(reverse("admin:index")).content.decode()}


def spark() -> list[str]:
    """Return the output of the pipeline, run without Django, by a user who does not know the app."""
    from django_pgqueue.spark.errors import PipelineError
    from django_pgqueue.spark.export.job import export
    from django_pgqueue.spark.source import Source

    source = Source.parse(os.environ["DATABASE_URL"])
    with tempfile.TemporaryDirectory() as folder:
        results = [export(source, Path(folder) / "lake").warning]
    for statement in ("SELECT pgqueue_ingest_open('job')", "DELETE FROM pgqueue_queue_metric"):
        try:
            with source.connect() as session, source.errors():
                session.execute(statement)
        except PipelineError as error:
            results.append(str(error))
    return results


def flush() -> list[str]:
    """The channels after a flush, as after a test that commits."""
    from django_pgqueue.models import ArchivedMessage, Channel

    call_command("flush", interactive=False, verbosity=0)
    assert not ArchivedMessage.objects.exists()
    return list(Channel.objects.values_list("name", flat=True))


if __name__ == "__main__":
    main()
