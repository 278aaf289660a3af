from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any

from django.apps import apps
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections
from psycopg import pq
from psycopg.conninfo import make_conninfo

from django_pgqueue.checks.migrated import INSTALL_PIPELINE, NAMES
from django_pgqueue.conf import settings
from django_pgqueue.management.database import known_database
from django_pgqueue.sql.files import PIPELINE

ACTIONS = ("export", "rollup", "report", "redrive", "verify", "erase", "compact", "publish")


class Command(BaseCommand):
    help = (
        "Exports the archive to a lake of Parquet files, and works on the lake. It runs python -m django_pgqueue.spark "
        "with the queue's database and the settings LAKE and SLA. queuelake <action> --help lists the options of an "
        "action."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--database", help="alias of the queue's database (default: as enqueue does)")
        parser.add_argument("action", choices=ACTIONS)
        parser.add_argument(
            "options", nargs=argparse.REMAINDER, metavar="...", help="options of the action, --lake for another lake"
        )

    def handle(self, *, database: str | None, action: str, **given: Any) -> None:
        using = known_database(database)
        if not apps.is_installed(NAMES[PIPELINE]):
            raise CommandError(f"The app {NAMES[PIPELINE]!r} is not installed. {INSTALL_PIPELINE}")
        command = [sys.executable, "-m", "django_pgqueue.spark", action, *promises(action), *given["options"]]
        status = run_process(command, lake_environment(using))
        if status:
            sys.exit(status)


def promises(action: str) -> list[str]:
    """Return the setting SLA as options. They come first, so that options of the command line win."""
    if action != "rollup":
        return []
    return [f"--sla={name}={longest.total_seconds():f}" for name, longest in settings.SLA.items()]


def lake_environment(using: str) -> dict[str, str]:
    """Return the environment that gives the database and the lake. Arguments are visible to all users, so they carry
    neither."""
    found = {**os.environ, "PGQUEUE_SOURCE": conninfo(using)}
    if settings.LAKE is not None:
        found["PGQUEUE_LAKE"] = os.fspath(settings.LAKE)
    return found


def conninfo(using: str) -> str:
    """Return libpq's connection string of this database, including the password."""
    known = {default.keyword.decode() for default in pq.Conninfo.get_defaults()}
    parameters = connections[using].get_connection_params()
    return make_conninfo("", **{key: value for key, value in parameters.items() if key in known})


def run_process(command: list[str], environment: dict[str, str]) -> int:
    """Run the process, and return its exit status as a shell gives it. A signal that ends this process is passed on
    first."""
    process = subprocess.Popen(command, env=environment)
    with suppress(ValueError):  # in another thread than the main one, signals cannot be handled
        signal.signal(signal.SIGTERM, lambda number, frame: process.terminate())
    while True:
        try:
            status = process.wait()
        except KeyboardInterrupt:
            # A terminal sends the signal to both processes.
            if not sys.stdin.isatty():
                process.send_signal(signal.SIGINT)
        else:
            return status if status >= 0 else 128 - status
