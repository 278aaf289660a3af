from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from django.apps import apps
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.module_loading import import_string

from django_pgqueue.importing import celery

PERIODIC_TASK = ("django_celery_beat", "PeriodicTask")


class Command(BaseCommand):
    help = "Prints the handler or schedule for each task and schedule of the project's Celery app. It changes nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--app", metavar="MODULE.NAME", help="the Celery app (default: Celery's current one)")
        parser.add_argument("--format", dest="form", choices=["text", "json"], default="text")

    def handle(self, *, app: str | None, form: str, **options: Any) -> None:
        try:
            found = import_string(app or "celery.current_app")
        except ImportError as error:
            raise CommandError(f"No Celery app was found: {error}. Name it with --app mysite.celery.app") from error
        # Celery imports and binds tasks late, as a worker does.
        found.loader.import_default_modules()
        found.finalize()
        rows: Iterable[Any] = []
        if apps.is_installed("django_celery_beat"):
            rows = apps.get_model(*PERIODIC_TASK)._default_manager.order_by("name")
        plan = {"tasks": list(celery.tasks(found)), "schedules": list(celery.celery_schedules(found, rows))}
        if form == "json":
            self.stdout.write(json.dumps({kind: [asdict(port) for port in ports] for kind, ports in plan.items()}))
            return
        for kind, ports in plan.items():
            self.stdout.write(f"{len(ports)} {kind}")
            for port in ports:
                self.stdout.write(f"\n{port.name}")
                self.stdout.write(f"    {port.becomes or 'nothing here corresponds to it'}")
                for note in port.notes:
                    self.stdout.write(f"    - {note}")
            self.stdout.write("")
